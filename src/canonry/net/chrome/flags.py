"""The command line flags of Chrome; the reason for each: docs/decisions/0011-chrome.md"""

from __future__ import annotations

_HEAP_MB = 512  # of the scripts of one page; a page that allocates more crashes
_DISABLED_FEATURES = (
    "AutofillServerCommunication",
    "DialMediaRouteProvider",
    "MediaRouter",
    "OptimizationHints",
    "RenderDocument",
    "Translate",
)
# Without this preference, Chrome asks a host of its maker after each certificate error whether a captive portal is
# the cause. No flag and no feature turns that off.
PREFERENCES = {"alternate_error_pages": {"enabled": False}}
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--dns-prefetch-disable",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--block-new-web-contents",
    "--deny-permission-prompts",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--no-service-autorun",
    "--password-store=basic",
    "--use-mock-keychain",
    "--disable-back-forward-cache",
    "--disable-backgrounding-occluded-windows",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-hang-monitor",
    "--disable-gpu",
    "--num-raster-threads=1",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--mute-audio",
    f"--disable-features={','.join(_DISABLED_FEATURES)}",
    f"--js-flags=--max-old-space-size={_HEAP_MB}",
)
