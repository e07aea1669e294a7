"""Clients that PyPI doesn't have: a browser's EventSource, and TypeScript from the OpenAPI document."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from serving.service import Service, Stream, serving

pytestmark = pytest.mark.external
SECONDS, STREAMS = 60.0, 4
FLAGS = (
    "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync",
    "disable-background-networking", "disable-component-update", "remote-debugging-port=0",
)  # fmt: skip
PAGE = """<!doctype html><meta charset="utf-8"><script>
async function stream(body) {
  const answer = await fetch(URL_ + "/v1/chat/completions", {method: "POST", body: JSON.stringify(body)});
  const reader = answer.body.getReader(), decoder = new TextDecoder();
  let head = "", id = null;
  while (id === null) {
    head += decoder.decode((await reader.read()).value, {stream: true});
    id = (head.match(/"id":"([^"]+)"/) || [null, null])[1];
  }
  await reader.cancel();
  return new Promise(resolve => {
    const source = new EventSource(`${URL_}/v1/streams/${id}`);
    let text = "", opened = 0;
    source.onopen = () => opened++;
    source.onmessage = event => {
      if (event.data === "[DONE]") { source.close(); resolve({text, opened}); return; }
      for (const choice of JSON.parse(event.data).choices) text += choice.delta.content || "";
    };
  });
}
Promise.all(BODIES.map(stream)).then(
  found => fetch("/done", {method: "POST", body: JSON.stringify(found)}),
  error => fetch("/done", {method: "POST", body: JSON.stringify(String(error))}));
</script>"""
CLIENT = """
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

const client = createClient<paths>({ baseUrl: process.argv[2] });
type Chat = components["schemas"]["ChatCompletion"];

async function main(): Promise<void> {
  const messages = [{ role: "user" as const, content: "Name a colour." }];
  const asked = { model: "smollm2", messages, max_tokens: 12, temperature: 0 };
  const { data, error } = await client.POST("/v1/chat/completions", { body: asked });
  if (error) throw new Error(error.error.message);
  const whole: string | null = (data as Chat).choices[0].message.content;
  const streamed = await client.POST("/v1/chat/completions", {
    body: { ...asked, stream: true },
    parseAs: "stream",
  });
  let text = "";
  let said = "";
  const decoder = new TextDecoder();
  for await (const piece of streamed.data as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(piece, { stream: true });
  }
  for (const line of text.split("\\n")) {
    if (line.startsWith("data: {")) said += JSON.parse(line.slice(6)).choices[0].delta.content ?? "";
  }
  console.log(JSON.stringify({ whole, said }));
}
main();
"""


@pytest.fixture
def service(tmp_path: Path, smollm2_path: Path) -> Iterator[Service]:
    config = tmp_path / "service.toml"
    config.write_text(f'threads = 2\norigins = ["*"]\n[models]\nsmollm2 = "{smollm2_path}"\n')
    with serving(tmp_path / "run", "--config", str(config)) as made:
        yield made


def needed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"external: no {program} here; python tests/external.py installs it")
    return found


def test_a_page_streams_across_reconnects(service: Service, tmp_path: Path) -> None:
    chromium = needed("chromium")
    bodies = [
        {
            "model": "smollm2",
            "messages": [{"role": "user", "content": f"Tell a long story about fox number {number}."}],
            "max_tokens": 3000,
            "ignore_eos": True,
            "seed": number,
            "stream": True,
        }
        for number in range(STREAMS)
    ]
    undisturbed = [Stream(service, "/v1/chat/completions", body) for body in bodies]
    threads = [threading.Thread(target=each.run, args=(300,)) for each in undisturbed]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    wanted = [each.texts[0] for each in undisturbed]
    page = PAGE.replace("URL_", json.dumps(service.url)).replace("BODIES", json.dumps(bodies))
    came: list[object] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page.encode())

        def do_POST(self) -> None:
            came.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        flags = [f"--{each}" for each in FLAGS] + [f"--user-data-dir={tmp_path / 'browser'}"]
        url = f"http://127.0.0.1:{server.server_port}/"
        browser = subprocess.Popen(
            [chromium, *flags, url],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            began, broken = time.monotonic(), 0
            while not came and time.monotonic() - began < 300:
                time.sleep(5)
                if time.monotonic() - began < SECONDS:
                    with suppress(ProcessLookupError):
                        os.kill(service.children()["gateway-0"], signal.SIGKILL)
                        broken += 1
        finally:
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()
            server.shutdown()
    (found,) = came
    assert isinstance(found, list), found
    assert [each["text"] for each in found] == wanted and all(wanted)
    assert broken >= 3 and all(each["opened"] > 2 for each in found)


def test_a_typescript_client_compiles_and_streams(service: Service, tmp_path: Path) -> None:
    node, npm = needed("node"), needed("npm")
    (tmp_path / "openapi.json").write_bytes(service.get("/openapi.json")[1])
    (tmp_path / "client.ts").write_text(CLIENT)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    packages = ("openapi-typescript", "openapi-fetch", "typescript@5", "@types/node@20")

    def run(*command: str) -> str:
        found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert found.returncode == 0, found.stdout + found.stderr
        return found.stdout

    install = (npm, "install", "--silent", "--no-audit", "--no-fund", *packages)
    if subprocess.run(install, cwd=tmp_path, capture_output=True).returncode:
        pytest.skip("external: the packages of Node.js are out of reach")
    run(node, "node_modules/.bin/openapi-typescript", "openapi.json", "-o", "schema.d.ts")
    options = ("--strict", "--target", "es2022", "--module", "es2022", "--moduleResolution", "bundler")
    run(node, "node_modules/.bin/tsc", *options, "--types", "node", "client.ts")
    told = json.loads(run(node, "client.js", service.url))
    assert told["whole"] and told["whole"] == told["said"]
