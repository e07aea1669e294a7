"""A service under the load of many clients, and others beside it: new tokens a second, and how long clients
wait.

    python -m benchmarks.serve http://127.0.0.1:8000 --model smollm2 --clients 32 --seconds 30 --json
    python -m benchmarks.serve http://127.0.0.1:8001 --model smollm2 --clients 32 --intruder 4000

Each client asks one thing after the other: prompts of 20 to 400 words and answers of 16 to 128 tokens, of a
fixed seed, so that every server is asked the same. With `--intruder` a prompt of about so many tokens arrives
every five seconds, and the others' waits are told for the seconds in which it is read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from dataclasses import dataclass, field

import httpx

WORDS = ("the", "of", "a", "fox", "house", "river", "bird", "small", "old", "near", "under", "light", "stone")


@dataclass
class Seen:
    """What one client saw."""

    first: list[float] = field(default_factory=list)
    gaps: list[tuple[float, float]] = field(default_factory=list)
    """When a token came, and how long after the one before it."""
    tokens: int = 0
    failed: int = 0


def asked(model: str, rng: random.Random) -> dict[str, object]:
    """A request of mixed length."""
    words = rng.choices(WORDS, k=int(min(400, 20 * rng.paretovariate(1.1))))
    return {
        "model": model,
        "messages": [{"role": "user", "content": " ".join(words)}],
        "max_tokens": int(min(128, 16 * rng.paretovariate(0.9))),
        "temperature": 0.8,
        "seed": rng.randrange(1 << 30),
        "stream": True,
    }


async def ask(client: httpx.AsyncClient, url: str, body: dict[str, object], seen: Seen) -> None:
    """One request, read to its end."""
    began = last = time.perf_counter()
    first = True
    async with client.stream("POST", f"{url}/v1/chat/completions", json=body) as answer:
        if answer.status_code != 200:
            seen.failed += 1
            await answer.aread()
            await asyncio.sleep(0.2)
            return
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            choices = json.loads(line[6:]).get("choices") or [{}]
            if not choices[0].get("delta", {}).get("content"):
                continue
            now = time.perf_counter()
            if first:
                seen.first.append(now - began)
                first = False
            else:
                seen.gaps.append((now, now - last))
            seen.tokens += 1
            last = now


async def client(url: str, model: str, number: int, end: float, seen: Seen) -> None:
    """Ask until the time is over."""
    rng = random.Random(number)
    limits = httpx.Limits(max_connections=1)
    async with httpx.AsyncClient(timeout=300, limits=limits) as session:
        while time.perf_counter() < end:
            await ask(session, url, asked(model, rng), seen)


async def intrude(url: str, model: str, tokens: int, end: float, spans: list[tuple[float, float]]) -> None:
    """Send a long prompt every five seconds; when it was read."""
    rng = random.Random(99)
    async with httpx.AsyncClient(timeout=300) as session:
        while time.perf_counter() < end - 5:
            await asyncio.sleep(5)
            words = " ".join(rng.choices(WORDS, k=tokens - 40))
            body = asked(model, rng) | {"messages": [{"role": "user", "content": words}], "max_tokens": 2}
            began, seen = time.perf_counter(), Seen()
            await ask(session, url, body, seen)
            spans.append((began, began + (seen.first or [0.0])[0]))


def percentile(values: list[float], share: float) -> float:
    """The value that so large a share isn't above; 0 of none."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


async def measure(url: str, model: str, clients: int, seconds: float, intruder: int) -> dict[str, object]:
    """All figures."""
    everyone = [Seen() for _ in range(clients)]
    began = time.perf_counter()
    end = began + seconds
    tasks = [client(url, model, number, end, seen) for number, seen in enumerate(everyone)]
    spans: list[tuple[float, float]] = []
    if intruder:
        tasks.append(intrude(url, model, intruder, end, spans))
    await asyncio.gather(*tasks)
    spent = time.perf_counter() - began
    firsts = [each for seen in everyone for each in seen.first]
    gaps = [gap for seen in everyone for _, gap in seen.gaps]
    found: dict[str, object] = {
        "url": url, "clients": clients, "seconds": round(spent, 1), "requests": len(firsts),
        "failed": sum(seen.failed for seen in everyone),
        "tokens_per_second": round(sum(seen.tokens for seen in everyone) / spent, 1),
        "ttft_p50": round(percentile(firsts, 0.5), 4), "ttft_p99": round(percentile(firsts, 0.99), 4),
        "inter_token_p50": round(percentile(gaps, 0.5), 4),
        "inter_token_p99": round(percentile(gaps, 0.99), 4),
    }  # fmt: skip
    if intruder:
        during = [gap for seen in everyone for at, gap in seen.gaps if any(a <= at <= b for a, b in spans)]
        found["intruders"] = len(spans)
        found["intruder_ttft"] = [round(b - a, 2) for a, b in spans]
        found["inter_token_p99_during"] = round(percentile(during, 0.99), 4)
    return found


def main() -> None:
    """Print the figures."""
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=how)
    parser.add_argument("url")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--intruder", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = asyncio.run(measure(given.url, given.model, given.clients, given.seconds, given.intruder))
    lines = (f"{name:24} {value}" for name, value in found.items())
    print(json.dumps(found) if given.json else "\n".join(lines))


if __name__ == "__main__":
    main()
