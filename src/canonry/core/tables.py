"""Generated from core/data/ by tools/tables.py (make tables); do not edit."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

POLICIES: dict[str, dict[str, Any]] = {
    "article@0": {
        "name": "article",
        "version": 0,
        "about": "news articles: the input of canonical_hash; takes an overrides file",
        "collapse_slashes": True,
        "strip_trailing_slash": True,
        "sort_params": True,
        "fragment": "drop",
        "strip_params": (
            "cmpid", "fbclid", "gclid", "icid", "mc_cid", "mc_eid", "ocid", "ref", "ref_src", "utm_*",
        ),
    },
    "bookmark@1": {
        "name": "bookmark",
        "version": 1,
        "about": "bookmarks: drops tracking parameters, keeps what selects the page",
        "sort_params": True,
        "fragment": "keep",
        "sites": (
            "x@1", "youtube@1",
        ),
        "strip_params": (
            "__hsfp", "__hssc", "__hstc", "__s", "_bhlid", "_branch_match_id", "_branch_referrer", "_cio_id",
            "_ga", "_gl", "_hsenc", "_hsmi", "_ke", "_kx", "_openstat", "at_campaign", "at_medium",
            "at_recipient_id", "at_recipient_list", "awc", "bsft_*", "cjdata", "cjevent", "ck_subscriber_id",
            "cmpid", "dclid", "dm_i", "ef_id", "elq", "elqaid", "elqat", "elqcampaignid", "elqtrackid",
            "epik", "fbclid", "gad_campaignid", "gad_source", "gbraid", "gclid", "gclsrc", "guccounter",
            "guce_referrer", "guce_referrer_sig", "hmb_*", "hsctatracking", "icid", "igsh", "igshid",
            "irclickid", "irgwc", "itscg", "itsct", "li_fat_id", "matomo_campaign", "mc_cid", "mc_eid",
            "mibextid", "mkcid", "mkevt", "mkrid", "mkt_tok", "ml_sub", "ml_sub_hash", "ml_subscriber",
            "ml_subscriber_hash", "msclkid", "mtm_*", "ocid", "oly_anon_id", "oly_enc_id", "piwik_campaign",
            "piwik_kwd", "pk_campaign", "pk_cid", "pk_content", "pk_keyword", "pk_kwd", "pk_medium",
            "pk_source", "pk_vid", "qclid", "rb_clickid", "rdt_cid", "s_cid", "s_kwcid", "sc_eh", "sc_lid",
            "sc_llid", "sc_src", "sc_uid", "sccid", "srsltid", "sznclid", "tblci", "ttclid", "twclid",
            "utm_*", "vero_conv", "vero_id", "wbraid", "wickedid", "wickedsource", "wprov", "wt.mc_id",
            "wt_mc", "xtor", "yclid", "ymclid", "ysclid", "zanpid",
        ),
        "strip_params_on": {
            "apps.apple.com": (
                "ct", "pt",
            ),
            "open.spotify.com": (
                "si",
            ),
            "soundcloud.com": (
                "si",
            ),
        },
    },
    "crawl@1": {
        "name": "crawl",
        "version": 1,
        "about": "pages of one site: one URL for each page, query unchanged",
        "normalize_escapes": True,
        "strip_trailing_slash": True,
        "fragment": "drop",
    },
    "entry@1": {
        "name": "entry",
        "version": 1,
        "about": "links of feed items: drops the fragment and common tracking parameters",
        "fragment": "drop",
        "strip_params": (
            "fbclid", "gclid", "ref", "source", "utm_*",
        ),
    },
    "exact@1": {
        "name": "exact",
        "version": 1,
        "about": "any http(s) URL, exactly as written",
        "parse": False,
        "fragment": "keep",
    },
    "feed-aggressive@1": {
        "name": "feed-aggressive",
        "version": 1,
        "about": "feeds: ignores every cosmetic difference, including www.",
        "strip_www": True,
        "normalize_escapes": True,
        "collapse_slashes": True,
        "strip_trailing_slash": True,
        "sort_params": True,
        "fragment": "drop",
        "sites": (
            "blogger@1", "feedburner@1",
        ),
        "strip_params": (
            "__hsfp", "__hssc", "__hstc", "__s", "_bhlid", "_branch_match_id", "_branch_referrer", "_cio_id",
            "_ga", "_gl", "_hsenc", "_hsmi", "_ke", "_kx", "_openstat", "at_campaign", "at_medium",
            "at_recipient_id", "at_recipient_list", "awc", "bsft_*", "cjdata", "cjevent", "ck_subscriber_id",
            "cmpid", "dclid", "dm_i", "ef_id", "elq", "elqaid", "elqat", "elqcampaignid", "elqtrackid",
            "epik", "fbclid", "gad_campaignid", "gad_source", "gbraid", "gclid", "gclsrc", "guccounter",
            "guce_referrer", "guce_referrer_sig", "hmb_*", "hsctatracking", "icid", "igsh", "igshid",
            "irclickid", "irgwc", "itscg", "itsct", "li_fat_id", "matomo_campaign", "mc_cid", "mc_eid",
            "mkcid", "mkevt", "mkrid", "mkt_tok", "ml_sub", "ml_sub_hash", "ml_subscriber",
            "ml_subscriber_hash", "msclkid", "mtm_*", "ocid", "oly_anon_id", "oly_enc_id", "piwik_campaign",
            "piwik_kwd", "pk_campaign", "pk_cid", "pk_content", "pk_keyword", "pk_kwd", "pk_medium",
            "pk_source", "pk_vid", "qclid", "rb_clickid", "rdt_cid", "s_cid", "s_kwcid", "sc_eh", "sc_lid",
            "sc_llid", "sc_src", "sc_uid", "sccid", "srsltid", "sznclid", "tblci", "ttclid", "twclid",
            "utm_*", "vero_conv", "vero_id", "wbraid", "wickedid", "wickedsource", "wprov", "wt.mc_id",
            "wt_mc", "xtor", "yclid", "ymclid", "ysclid", "zanpid",
        ),
    },
    "feed-conservative@1": {
        "name": "feed-conservative",
        "version": 1,
        "about": "feeds: like feed-moderate, but keeps a slash at the end of the path",
        "normalize_escapes": True,
        "collapse_slashes": True,
        "sort_params": True,
        "fragment": "drop",
        "sites": (
            "blogger@1", "feedburner@1",
        ),
        "strip_params": (
            "__hsfp", "__hssc", "__hstc", "__s", "_bhlid", "_branch_match_id", "_branch_referrer", "_cio_id",
            "_ga", "_gl", "_hsenc", "_hsmi", "_ke", "_kx", "_openstat", "at_campaign", "at_medium",
            "at_recipient_id", "at_recipient_list", "awc", "bsft_*", "cjdata", "cjevent", "ck_subscriber_id",
            "cmpid", "dclid", "dm_i", "ef_id", "elq", "elqaid", "elqat", "elqcampaignid", "elqtrackid",
            "epik", "fbclid", "gad_campaignid", "gad_source", "gbraid", "gclid", "gclsrc", "guccounter",
            "guce_referrer", "guce_referrer_sig", "hmb_*", "hsctatracking", "icid", "igsh", "igshid",
            "irclickid", "irgwc", "itscg", "itsct", "li_fat_id", "matomo_campaign", "mc_cid", "mc_eid",
            "mkcid", "mkevt", "mkrid", "mkt_tok", "ml_sub", "ml_sub_hash", "ml_subscriber",
            "ml_subscriber_hash", "msclkid", "mtm_*", "ocid", "oly_anon_id", "oly_enc_id", "piwik_campaign",
            "piwik_kwd", "pk_campaign", "pk_cid", "pk_content", "pk_keyword", "pk_kwd", "pk_medium",
            "pk_source", "pk_vid", "qclid", "rb_clickid", "rdt_cid", "s_cid", "s_kwcid", "sc_eh", "sc_lid",
            "sc_llid", "sc_src", "sc_uid", "sccid", "srsltid", "sznclid", "tblci", "ttclid", "twclid",
            "utm_*", "vero_conv", "vero_id", "wbraid", "wickedid", "wickedsource", "wprov", "wt.mc_id",
            "wt_mc", "xtor", "yclid", "ymclid", "ysclid", "zanpid",
        ),
    },
    "feed-moderate@1": {
        "name": "feed-moderate",
        "version": 1,
        "about": "feeds: like feed-aggressive, but keeps www.",
        "normalize_escapes": True,
        "collapse_slashes": True,
        "strip_trailing_slash": True,
        "sort_params": True,
        "fragment": "drop",
        "sites": (
            "blogger@1", "feedburner@1",
        ),
        "strip_params": (
            "__hsfp", "__hssc", "__hstc", "__s", "_bhlid", "_branch_match_id", "_branch_referrer", "_cio_id",
            "_ga", "_gl", "_hsenc", "_hsmi", "_ke", "_kx", "_openstat", "at_campaign", "at_medium",
            "at_recipient_id", "at_recipient_list", "awc", "bsft_*", "cjdata", "cjevent", "ck_subscriber_id",
            "cmpid", "dclid", "dm_i", "ef_id", "elq", "elqaid", "elqat", "elqcampaignid", "elqtrackid",
            "epik", "fbclid", "gad_campaignid", "gad_source", "gbraid", "gclid", "gclsrc", "guccounter",
            "guce_referrer", "guce_referrer_sig", "hmb_*", "hsctatracking", "icid", "igsh", "igshid",
            "irclickid", "irgwc", "itscg", "itsct", "li_fat_id", "matomo_campaign", "mc_cid", "mc_eid",
            "mkcid", "mkevt", "mkrid", "mkt_tok", "ml_sub", "ml_sub_hash", "ml_subscriber",
            "ml_subscriber_hash", "msclkid", "mtm_*", "ocid", "oly_anon_id", "oly_enc_id", "piwik_campaign",
            "piwik_kwd", "pk_campaign", "pk_cid", "pk_content", "pk_keyword", "pk_kwd", "pk_medium",
            "pk_source", "pk_vid", "qclid", "rb_clickid", "rdt_cid", "s_cid", "s_kwcid", "sc_eh", "sc_lid",
            "sc_llid", "sc_src", "sc_uid", "sccid", "srsltid", "sznclid", "tblci", "ttclid", "twclid",
            "utm_*", "vero_conv", "vero_id", "wbraid", "wickedid", "wickedsource", "wprov", "wt.mc_id",
            "wt_mc", "xtor", "yclid", "ymclid", "ysclid", "zanpid",
        ),
    },
}

SITE_TABLES: dict[str, dict[str, str | tuple[str, ...]]] = {
    "youtube@1": {
        "target": "www.youtube.com",
        "hosts": (
            "youtube.com", "m.youtube.com", "youtube-nocookie.com",
        ),
        "short_hosts": (
            "youtu.be",
        ),
        "hosts_for_paths": (
            "music.youtube.com",
        ),
        "paths": (
            "/watch", "/playlist",
        ),
        "id_folders": (
            "shorts", "embed", "live", "v",
        ),
        "not_ids": (
            "live_stream", "videoseries", "watch", "playlist",
        ),
        "keep_params": (
            "v", "list", "index", "t",
        ),
    },
    "x@1": {
        "target": "x.com",
        "hosts": (
            "x.com", "m.x.com", "mobile.x.com", "twitter.com", "m.twitter.com", "mobile.twitter.com",
        ),
        "drop_params": (
            "s", "t", "currenttweet", "currenttweetuser", "ref_src",
        ),
    },
    "feedburner@1": {
        "target": "feeds.feedburner.com",
        "hosts": (
            "feeds.feedburner.com", "feeds2.feedburner.com", "feedproxy.google.com",
        ),
    },
    "blogger@1": {
        "target": "blogspot.com",
        "drop_params": (
            "max-results", "redirect", "orderby", "v",
        ),
        "drop_alt": (
            "atom", "json",
        ),
        "suffixes": (
            "com", "ae", "al", "am", "ba", "be", "bg", "bj", "ca", "cat", "cf", "ch", "cl", "co.at", "co.id",
            "co.il", "co.ke", "co.nz", "co.uk", "co.za", "com.ar", "com.au", "com.br", "com.by", "com.co",
            "com.cy", "com.ee", "com.eg", "com.es", "com.mt", "com.ng", "com.tr", "com.uy", "cv", "cz", "de",
            "dk", "es", "fi", "fr", "gr", "hk", "hr", "hu", "ie", "in", "is", "it", "jp", "kr", "li", "lt",
            "lu", "md", "mk", "mr", "mx", "my", "nl", "no", "pe", "pt", "qa", "re", "ro", "rs", "ru", "se",
            "sg", "si", "sk", "sn", "td", "tw", "ug", "vn",
        ),
    },
}

SKIPPED_EXTENSIONS = frozenset((
    "avi", "css", "gif", "gz", "ico", "jpeg", "jpg", "js", "mov", "mp3", "mp4", "pdf", "png", "svg", "tar",
    "wav", "webp", "zip",
))

SHORTENERS = frozenset((
    "1drv.ms", "a.aliexpress.com", "a.co", "abcn.ws", "accntu.re", "acortar.link", "adobe.ly", "aje.io",
    "aka.ms", "amzn.asia", "amzn.eu", "amzn.to", "apne.ws", "apple.co", "axios.link", "b23.tv", "bbc.in",
    "bit.ly", "bitly.com", "bloom.bg", "buff.ly", "bzfd.it", "cbsn.ws", "chng.it", "clck.ru", "cnb.cx",
    "cnet.co", "cnn.it", "conta.cc", "cs.co", "cutt.ly", "da.gd", "dai.ly", "db.tt", "deb.li", "deloi.tt",
    "dlvr.it", "dub.sh", "ebay.to", "ebay.us", "econ.st", "eepurl.com", "encurtador.com.br", "engt.co",
    "es.pn", "etsy.me", "fb.me", "fb.watch", "flic.kr", "flip.it", "forms.gle", "fxn.ws", "g.co", "geni.us",
    "git.io", "go.aws", "go.nasa.gov", "go.nature.com", "gofund.me", "goo.gl", "goo.gle", "goo.su", "gu.com",
    "han.gl", "ht.ly", "hubs.la", "hubs.li", "hubs.ly", "huffp.st", "ibm.biz", "ibm.co", "ift.tt", "is.gd",
    "j.mp", "jb.gg", "kck.st", "kko.to", "kutt.it", "lat.ms", "lemde.fr", "lihi.cc", "lin.ee", "lnkd.in",
    "m.tb.cn", "maps.app.goo.gl", "mck.co", "msft.it", "mzl.la", "n.pr", "n9.cl", "naver.me", "nbcnews.to",
    "nflx.it", "nyer.cm", "nym.ag", "nyp.st", "nyti.ms", "okt.to", "on.ft.com", "on.mktw.net", "on.msnbc.com",
    "on.natgeo.com", "on.soundcloud.com", "on.ted.com", "on.wsj.com", "onforb.es", "ow.ly", "owl.li",
    "p.dw.com", "pewrsr.ch", "photos.app.goo.gl", "pin.it", "politi.co", "ppt.cc", "prn.to", "propub.li",
    "pse.is", "pwc.to", "qr.ae", "qrco.de", "rb.gy", "read.bi", "rebrand.ly", "red.ht", "redd.it", "reurl.cc",
    "reut.rs", "s.click.aliexpress.com", "s.hbr.org", "s.id", "scim.ag", "sco.lt", "search.app", "sforce.co",
    "share.google", "shope.ee", "short.gy", "shorturl.asia", "shorturl.at", "slate.me", "snip.ly", "spoti.fi",
    "spotify.link", "spr.ly", "surl.li", "sz.de", "t.cn", "t.co", "t.ly", "t1p.de", "tcrn.ch", "tgam.ca",
    "theatln.tc", "thebea.st", "ti.me", "tidd.ly", "tiny.cc", "tiny.one", "tinyurl.com", "tmblr.co",
    "to.pbs.org", "trib.al", "u.to", "urlr.me", "urlz.fr", "usat.ly", "v.douyin.com", "v.gd", "vk.cc",
    "vm.tiktok.com", "vo.la", "vt.tiktok.com", "w.wiki", "wapo.st", "wef.ch", "wp.me", "x.gd", "xhslink.com",
    "yhoo.it", "zd.net", "zpr.io",
))
