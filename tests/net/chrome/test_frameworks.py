"""Contract C4: all links of pages that React, Vue, Svelte and docsify build from an API, on a busy machine.

The packages are installed from npm into a temporary folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from canonry.net.origin import Origin
from chrome import make_page, needs_chrome, run_engine
from loopback import LoopbackWeb, in_a_loop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNS = 5
API_DELAYS_MS = (150, 600)  # the longer one is longer than the half second without changes that counts as quiet
ITEMS = [f"/item/{number}" for number in range(11)]
PACKAGES = ("react@19.1.0", "react-dom@19.1.0", "vue@3.5.13", "svelte@5.20.0", "docsify@4.13.1", "esbuild@0.25.0")
SITE = "http://site.example"
SOURCES = {
    "react.js": """
        import {createElement as h, useEffect, useState} from 'react';
        import {createRoot} from 'react-dom/client';
        const App = () => {
          const [items, setItems] = useState([]);
          useEffect(() => { fetch('/api').then((answer) => answer.json()).then(setItems); }, []);
          return h('ul', null, items.map((item) => h('li', {key: item}, h('a', {href: item}, item))));
        };
        createRoot(document.getElementById('app')).render(h(App));
    """,
    "vue.js": """
        import {createApp, h, onMounted, ref} from 'vue';
        createApp({setup() {
          const items = ref([]);
          onMounted(async () => { items.value = await (await fetch('/api')).json(); });
          return () => h('ul', items.value.map((item) => h('li', {key: item}, [h('a', {href: item}, item)])));
        }}).mount('#app');
    """,
    "svelte.js": """
        import {mount} from 'svelte';
        import App from './App.js';
        mount(App, {target: document.getElementById('app')});
    """,
    "App.svelte": """
        <script>
          let items = $state([]);
          $effect(() => { fetch('/api').then((answer) => answer.json()).then((found) => { items = found; }); });
        </script>
        <ul>{#each items as item}<li><a href={item}>{item}</a></li>{/each}</ul>
    """,
    "build.mjs": """
        import {readFileSync, writeFileSync} from 'node:fs';
        import {buildSync} from 'esbuild';
        import {compile} from 'svelte/compiler';
        const source = readFileSync('App.svelte', 'utf-8');
        writeFileSync('App.js', compile(source, {generate: 'client', filename: 'App.svelte'}).js.code);
        buildSync({
          entryPoints: ['react.js', 'vue.js', 'svelte.js'], bundle: true, minify: true, outdir: 'out',
          conditions: ['browser', 'svelte', 'production'],
          define: {'process.env.NODE_ENV': '"production"', __VUE_OPTIONS_API__: 'false',
            __VUE_PROD_DEVTOOLS__: 'false', __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: 'false'},
        });
    """,
}


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the scripts of the pages by framework, built from npm packages."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("npm or node is not installed (Debian: apt-get install npm)")
    folder: Path = tmp_path_factory.mktemp("npm")
    for name, text in SOURCES.items():
        (folder / name).write_text(text)
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    try:
        install = [npm, "install", "--no-audit", "--no-fund", "--prefer-offline", *PACKAGES]
        subprocess.run(install, cwd=folder, check=True, capture_output=True, timeout=240)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"npm could not install the packages: {(error.stderr or b'').decode(errors='replace')[-300:]}")
    subprocess.run([node, "build.mjs"], cwd=folder, check=True, timeout=120)
    scripts = {name: (folder / "out" / f"{name}.js").read_text() for name in ("react", "vue", "svelte")}
    return scripts | {"docsify": (folder / "node_modules" / "docsify" / "lib" / "docsify.min.js").read_text()}


@contextmanager
def keep_cpus_busy() -> Iterator[None]:
    """Run one endless loop for each CPU."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def make_site(framework: str, script: str, delay_ms: int) -> dict[str, dict[str, Any]]:
    start = "<script>window.$docsify = {loadSidebar: true}</script>" if framework == "docsify" else ""
    listing = "".join(f"* [item]({item})\n" for item in ITEMS)
    text = {"headers": {"Content-Type": "text/markdown"}, "delay_ms": delay_ms}
    return {
        f"{SITE}/": make_page(f"<body><div id=app></div>{start}<script src=/app.js></script>"),
        f"{SITE}/app.js": {"body": script, "headers": {"Content-Type": "text/javascript"}},
        f"{SITE}/api": {
            "body": json.dumps(ITEMS),
            "headers": {"Content-Type": "application/json"},
            "delay_ms": delay_ms,
        },
        f"{SITE}/README.md": text | {"body": "# Home\n\n[Guide](guide.md)"},
        f"{SITE}/_sidebar.md": text | {"body": listing},
    }


@needs_chrome
@pytest.mark.usefixtures("refused_connects", "profiles")
@pytest.mark.slow
@pytest.mark.parametrize("delay_ms", API_DELAYS_MS)
@pytest.mark.parametrize("framework", ["react", "vue", "svelte", "docsify"])
def test_every_link_is_found_on_a_busy_machine(framework: str, delay_ms: int, bundles: dict[str, str]) -> None:
    expected = {"#/guide", *(f"#{item}" for item in ITEMS)} if framework == "docsify" else set(ITEMS)

    @in_a_loop
    async def run() -> None:
        async with (
            LoopbackWeb(make_site(framework, bundles[framework], delay_ms)) as web,
            run_engine(web.lookup, tabs=1) as engine,
        ):
            for number in range(RUNS):
                opened = await engine.open(f"{SITE}/", origin=Origin.PERSON)
                assert opened.failure is None
                assert expected <= {link.href for link in opened.links}, f"run {number}"

    with keep_cpus_busy():
        run()
