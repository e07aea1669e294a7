"""Single-line faults in src/, as slips of the hand would leave them, by the tests that are near to them.

Each is (file in src/assay, what stands there once, what is put in its place). See plant_faults.py.
"""

from __future__ import annotations

import fault_groups as graphs
from fault_groups import Change, kernels

GROUPS: tuple[tuple[str, tuple[Change, ...]], ...] = (
    *graphs.GROUPS,
    (
        "tests/simd/test_mathf.py",
        (
            ("simd/mathf.py", "0.16666534543037415, 0.5", "0.16667534543037415, 0.5"),
            ("simd/mathf.py", "fma(n, splat(-1.42860682030941723e-6), r)", "r"),
        ),
    ),
    (
        "tests/simd/test_math64.py",
        (
            ("simd/math64.py", "f - (half - rest)", "f - half"),
            ("simd/trig.py", "h * QUARTER_LOW + rest * QUARTER", "h * QUARTER_LOW"),
            ("simd/rounding.py", "select(rest < 0.0, rest + part, rest)", "rest"),
        ),
    ),
    (
        kernels("rms_norm"),
        (
            ("simd/vector.py", "for half in (8, 4, 2, 1):", "for half in (8, 4, 2):"),
            (
                "kernels/norm.py",
                "store(target + 4 * i, load(source + 4 * i) * scale * load(w + 4 * i))",
                "store(target + 4 * i, load(source + 4 * i) * scale)",
            ),
            (
                "kernels/norm.py",
                "v = load_row(source, i, n)",
                "v = load_row(source, i, n, 1.0)",
            ),
            ("kernels/share.py", "return rows * tid // nthreads", "return (rows * tid + 1) // nthreads"),
        ),
    ),
    (
        "tests/llm/test_configs.py tests/llm/test_gguf_architectures.py -k 'not whatever'",
        (
            ("models/llama.py", '(keys, "neighbours")', '(keys, "halves")'),
            ("models/llama.py", "magnitude=rounded(magnitude)", "magnitude=1.0"),
            ("models/llama.py", '("ffn_gate", "ffn_up")', '("ffn_up", "ffn_gate")'),
            ("models/gguf_decoder.py", "        linear,\n", "        1.0,\n"),
            ("models/gguf_decoder.py", "int(trained * linear)", "trained"),
            ("models/gguf_decoder.py", "SHORT if long else", "LONG if long else"),
            ("models/decoder_graph.py", "if rope.magnitude == 1.0:", "if rope.magnitude:"),
            ("models/gemma.py", "if model.layers == largest", "if model.layers >= largest"),
            ("models/gemma.py", "local if model.window(layer) else wide", "wide"),
            ("models/shape.py", "layer % period < period - 1", "layer % period"),
            ("models/hyperparameters.py", "(values > 0)", "(values >= 0)"),
        ),
    ),
    (
        "tests/llm/test_small.py -k transformers",
        (
            ("models/gemma.py", "norms_plus=1.0", "norms_plus=0.0"),
            ("models/learned.py", "turned=True", "turned=False"),
            ("models/parts.py", "Part(source, rows[source], turned", "Part(source, 0, turned"),
            ("models/rope.py", "if turns > high:", "if turns > low:"),
            ("models/decoder_graph.py", "window=model.window(layer)", "window=0"),
        ),
    ),
    (
        kernels("quantize and not linear"),
        (
            ("kernels/quantize.py", "STEPS = np.float32(127.0)", "STEPS = np.float32(128.0)"),
            ("kernels/quantize.py", "(a >= infinite) | (b >= infinite)", "a >= infinite"),
            ("kernels/quantize.py", "store_i8(q + 32 * block + 16, j)", "store_i8(q + 32 * block + 16, i)"),
        ),
    ),
    (
        kernels("linear_quantized"),
        (
            ("kernels/qtile.py", "I32(-self.form.offset)", "I32(self.form.offset)"),
            ("kernels/panels.py", "2 * PANEL * kind for kind", "2 * PANEL for kind"),
            ("kernels/qtile.py", "fused(builder, scaled, each, value)", "value"),
            (
                "kernels/product.py",
                "panels = (n + PANEL - 1) // PANEL",
                "panels = n // PANEL",
            ),
            ("kernels/readers.py", "& mask ^ sign) <<", "& mask) <<"),
            ("kernels/readers.py", "get_u8(at) >> 6 << 4", "get_u8(at) >> 7 << 4"),
            ("kernels/qtile.py", "[first, [self.builder.sub(*each) for", "[first, [each[0] for"),
            ("kernels/pack.py", "sign = 0x8000 if super_block", "sign = 0 if super_block"),
        ),
    ),
    (
        kernels("linear and not quantized"),
        (
            (
                "kernels/gemm.py",
                "range(0, k, DEPTH):",
                "range(0, k - 1, DEPTH - 1):",
            ),
            ("kernels/ftile.py", "made.chosen(first, sums, more)", "made.chosen(first, more, sums)"),
        ),
    ),
    (
        kernels("attention"),
        (
            (
                "kernels/attention.py",
                "s = select(seen, load(scores + 4 * i), splat(NOTHING))",
                "s = load(scores + 4 * i)",
            ),
            (
                "kernels/attention.py",
                "store(output + 4 * i, fma(load(o + 4 * i), new, load(output + 4 * i) * old))",
                "store(output + 4 * i, fma(load(o + 4 * i), old, load(output + 4 * i) * new))",
            ),
            (
                "kernels/attention.py",
                "low = max(0, position + 1 - window - here)",
                "low = max(0, position - window - here)",
            ),
            (
                "kernels/attention.py",
                (
                    "group * kv_head + row % group)\n"
                    "            for i in range(0, d, 16):\n"
                    "                store(queries"
                ),
                ("group * kv_head)\n            for i in range(0, d, 16):\n                store(queries"),
            ),
        ),
    ),
    (
        kernels("rotary and not table"),
        (
            (
                "kernels/rotary.py",
                "store_row(target, i, pairs, fma(a, c, -(b * s)))",
                "store_row(target, i, pairs, fma(a, c, b * s))",
            ),
        ),
    ),
    (
        kernels("cache_write"),
        (
            (
                "kernels/kvcache.py",
                "put(at_key, key) | put(at_value, value)",
                "put(at_key, key)",
            ),
        ),
    ),
    (
        kernels("embedding"),
        (("kernels/unpack.py", "group, byte = 8 * (i // 4)", "group, byte = 8 * (i // 5)"),),
    ),
    (
        kernels("lora"),
        (
            ("kernels/lora.py", "total = block if depth == 0 else total + block", "total = block"),
            ("kernels/lora.py", "b + 4 * r * n * which", "b"),
        ),
    ),
    (
        "tests/llm/test_adapters.py",
        (
            ("models/parts.py", "return rows.reshape(heads, 2, -1,", "return rows.reshape(heads, -1, 2,"),
            ("models/adapters.py", "math.sqrt(rank) if", "rank if"),
            ("models/adapters.py", "[first : first + shapes[name][0]]", "[: shapes[name][0]]"),
            ("llm/engine.py", "sha256(self.root + self.adapters[adapter]).digest()", "self.root"),
            ("llm/step.py", "adapters.index(share.sequence.sampling.adapter) - 1", "0"),
        ),
    ),
    (
        "tests/audit tests/cli/test_merge.py",
        (
            ("audit/evaluation.py", "len(window) // 2, len(window) - 1", "len(window) // 2, len(window)"),
            (
                "audit/evaluation.py",
                "kullback_leibler(logs[-1], logs[0])",
                "kullback_leibler(logs[0], logs[-1])",
            ),
            ("models/adapters.py", "values.T if part.turned else values", "values"),
        ),
    ),
    (
        kernels("gather_rows"),
        (("kernels/move.py", "inside = 0 <= row < t", "inside = 0 <= row <= t"),),
    ),
    (
        kernels("sample"),
        (
            (
                "kernels/sample.py",
                "mass = weigh(y, n, greatest, ONE / temperature, space)",
                "mass = weigh(y, n, greatest, temperature, space)",
            ),
            ("kernels/sample.py", "mass = drop(weights, min_p, n, weights, n)", "mass = mass"),
            ("kernels/sample.py", "before < other < entry", "before <= other < entry"),
            ("kernels/sample.py", "(v > low) | ((v == low) & before)", "(v > low)"),
        ),
    ),
    (
        kernels("adjust"),
        (
            ("kernels/adjust.py", "x / repetition if x > 0", "x / repetition if x >= -1"),
            ("kernels/adjust.py", "if count > 0:", "if count >= 0:"),
            ("kernels/adjust.py", "| (v != v)", "| (v == v)"),
            ("kernels/adjust.py", "allowed + 4 * w * a + i // 8", "allowed + 4 * w * a + i // 16"),
        ),
    ),
    (
        "tests/llm/test_constraints.py tests/llm/test_sampling.py",
        (
            ("llm/bad_words.py", "range(1, min(len(text)", "range(2, min(len(text)"),
            ("llm/controls.py", "len(output) < self._least", "len(output) <= self._least"),
            ("llm/controls.py", "max(self._table[1, place], 0) + times", "max(self._table[1, place], 0)"),
            ("llm/controls.py", "= token, -1, 0", "= token, 0, 0"),
            ("llm/controls.py", "self._never | barred)", "self._never)"),
            ("llm/controls.py", "if left < 1:", "if left < 0:"),
            ("llm/grammar.py", "if name not in KEYWORDS:", "if name in KEYWORDS - KEYWORDS:"),
        ),
    ),
    (
        "tests/llm/test_sampling.py",
        (("llm/controls.py", "entries.count(guesses)", "entries.count(guesses[1:])"),),
    ),
    (
        "tests/kernels/test_sample.py",
        (("kernels/sample.py", "return max(1, part + 1 if rest else part)", "return max(1, part)"),),
    ),
    (
        "tests/runtime/test_team.py",
        (
            (
                "kernels/team.py",
                "while end < length and get_i64(tape + ENTRY_BYTES * end + 16) == 0:",
                "while end < length and get_i64(tape + ENTRY_BYTES * end + 16) != 0:",
            ),
            (
                "runtime/team.py",
                ('did not come along."""\n        self._lock = threading.Lock()\n'),
                'did not come along."""\n',
            ),
        ),
    ),
    (
        "tests/runtime/test_float_state.py",
        (("kernels/team.py", "    set_float_state(DEFAULT_STATE)\n", ""),),
    ),
    (
        "tests/runtime/test_team.py tests/runtime/test_executor.py",
        (
            (
                "kernels/team.py",
                "share = fetch_add(taken, 1)\n    return",
                "share = fetch_add(taken, 2)\n    return",
            ),
        ),
    ),
    (
        "tests/compiler tests/runtime/test_executor.py",
        (
            ("compiler/place.py", "if entry[0] < interval.begin", "if entry[0] <= interval.begin"),
            ("compiler/place.py", "interval.nbytes + gap", "interval.nbytes"),
            ("compiler/barriers.py", " or clashes(read, changed)", ""),
            ("compiler/plan.py", "        phase += launch.barrier\n", ""),
            ("compiler/plan.py", "None if each.view else rows", "rows"),
            ("compiler/plan.py", "rows if parse(port.dims).first == first else None", "rows"),
            ("compiler/chain.py", " and result not in graph.outputs", ""),
            ("runtime/executor.py", "if size >= wanted", "if size > wanted"),
            ("runtime/executor.py", "inputs.keys() != ready.inputs.keys()", "False"),
            ("runtime/executor.py", "        if fault:", "        if not fault:"),
        ),
    ),
    (
        "tests/llm/test_small.py",
        (
            ("llm/scheduler.py", "        free -= sequence.pages_for(1)\n", ""),
            (
                "llm/scheduler.py",
                "        budget -= count\n        tokens += count\n        pairs += count * (known",
                "        tokens += count\n        pairs += count * (known",
            ),
            (
                "llm/sequence.py",
                "pages.pop())\n        self.computed, self.whole, self.key = 0, 0,",
                "pages.pop())\n        self.whole, self.key = 0,",
            ),
            ("llm/pages.py", "        if self._holders[page]:", "        if not self._holders[page]:"),
            ("llm/step.py", "at % PAGE for at", "at // PAGE for at"),
            ("llm/step.py", "range(end - share.rows + 1, end + 1)", "range(end - share.rows, end)"),
            ("llm/step.py", "range(len(tokens) - share.rows,", "range(len(tokens) - share.count,"),
            ("llm/step.py", "row -= share.count", "row -= share.rows"),
            ("llm/engine.py", "sequence.tokens[-1] in self.ends and", "sequence.tokens[-1] in () and"),
            (
                "models/decoder_graph.py",
                "rounded(1 / root(model.head_dim))",
                "rounded(1 / model.head_dim)",
            ),
            (
                "models/rope.py",
                "(Decimal(-pair) / rope.pairs)",
                "(Decimal(-pair) / (rope.pairs + 1))",
            ),
        ),
    ),
    (
        "tests/kernels/test_chain.py",
        (
            ("ops/chain.py", "last[each] == index", "last[each] >= index"),
            ("ops/chain.py", "0 if extent != wanted else stride", "stride"),
        ),
    ),
    (
        "tests/runtime/test_executor.py",
        (("runtime/executor.py", "self._arena.nbytes < needed", "self._arena.nbytes < plan.arena"),),
    ),
    (
        "tests/llm/test_prefixes.py tests/llm/test_guesses.py tests/llm/test_session.py",
        (
            ("llm/scheduler.py", "        spare -= len(guessed)\n", ""),
            ("llm/prefixes.py", "if shared > common:", "if shared < common:"),
            ("llm/prefixes.py", "        sequence.whole += 1\n", ""),
            ("llm/prefixes.py", "        self._copy(source, page)\n", ""),
            ("llm/prefixes.py", "sha256(before + ", "sha256("),
            ("llm/pages.py", "            self._evicted(page)\n", ""),
            ("llm/sequence.py", "pages.release(self.pages.pop())", "pages.release(self.pages.pop(0))"),
            ("llm/engine.py", "if row[0] != guess or", "if"),
            (
                "llm/engine.py",
                "self.guesses.stop(share.sequence)",
                'self._end(share.sequence, "error", error)',
            ),
            ("llm/session.py", "        if got != want:", "        if got != want and False:"),
            ("llm/identity.py", '_compare(path, stamps, "a file was changed while it was loaded")', "pass"),
        ),
    ),
    (
        "tests/kernels/test_cache.py",
        (
            ("kernels/digest.py", "left.append(base)", "pass"),
            ("kernels/cache.py", "status.st_mode & 0o022", "status.st_mode & 0o002"),
        ),
    ),
    (
        "tests/llm/test_gguf_kinds.py tests/llm/test_folder_tokenizer.py tests/llm/test_charsmap.py "
        "tests/llm/test_tokens_agree.py -k 'not cpp'",
        (
            ("llm/readings.py", "any(len(name) == 1 for name in names)", "False"),
            ("llm/gguf_tokenizer.py", "or total > _ALL_PIECES:", "and total > _ALL_PIECES:"),
            ("llm/readings.py", 'if hidden.keys().isdisjoint((*pair, "".join(pair)))', ""),
            ("llm/readings.py", "not all(map(vocabulary.__contains__, made))", "False"),
            ("llm/readings.py", "stand_in.get(each.content) if each.special", "None if each.special"),
            ("llm/readings.py", "if name in hidden or", "if"),
            (
                "llm/folder_tokenizer.py",
                "and ids.get(token := whole.tokens[at]) != number",
                "and number >= self._rows",
            ),
            ("llm/tokenizer_json.py", "or removing or", "or"),
            ("llm/charsmap.py", "if not inner[0] or", "if"),
            ("llm/charsmap.py", "if not byte or unit", "if unit"),
            ("llm/tokenizer.py", "// (self.shrinks * longest)", "// self.shrinks"),
            ("llm/tokenizer_json.py", "regex in KNOWN_PATTERNS", "True"),
            ("llm/detokenizer.py", "and not continues", ""),
            ("llm/folder_tokenizer.py", 'bool(joins.get("Strip", {}).get("start"))', "False"),
        ),
    ),
    (
        "tests/llm/test_strict.py tests/llm/test_options.py tests/runtime/test_weights.py",
        (
            ("formats/tensors.py", "    if surplus:", "    if False and surplus:"),
            ("models/hyperparameters.py", "key not in self.asked:", "key in self.asked:"),
            ("models/shape.py", "    if heads % kv_heads:", "    if kv_heads % heads:"),
            ("runtime/weights.py", "if raw.nbytes != kind.nbytes({}):", "if raw.nbytes < kind.nbytes({}):"),
            ("llm/loader.py", "    contract.require(step)\n", ""),
            ("llm/options.py", "1, MOST_THREADS", "0, MOST_THREADS"),
            ("kernels/pack.py", "bad |= half & HALF == HALF", "pass"),
        ),
    ),
    (
        "tests/llm/test_stops.py",
        (("llm/stops.py", "min(longest, len(text))", "min(longest - 1, len(text))"),),
    ),
    (
        "tests/every_op/test_contract.py tests/ops",
        (
            ("ops/attributes.py", "value < attribute.low", "value <= attribute.low"),
            ("ops/scope.py", '.maker != "weight"', '.maker == "weight"'),
            (
                "ops/resolution.py",
                "if not relation.holds(site):",
                "if relation.holds(site):",
            ),
        ),
    ),
    (
        "tests/ops",
        (("ops/scope.py", "if name in self._changed:", "if False and name in self._changed:"),),
    ),
    (
        "tests/llm/test_gguf_folder.py",
        (
            ("models/gguf_contents.py", "        if turned:", "        if not turned:"),
            ("models/gguf_contents.py", "if want != got:", "if want is None:"),
            ("models/gguf_contents.py", "min(model.context, *filter", "max(model.context, *filter"),
            (
                "models/rope.py",
                "_frequency(plain, pair) / _frequency(rope",
                "_frequency(rope, pair) / _frequency(rope",
            ),
            (
                "llm/gguf_folder.py",
                "ranks.setdefault(first + second, -float(rank))",
                "ranks[first + second] = 0.0",
            ),
            ("llm/source.py", ".startswith(ignored)", ".startswith(())"),
            ("llm/source.py", "parts[at[2]].source if", "at[2] if"),
        ),
    ),
    (
        "tests/formats/test_quant.py",
        (("formats/blocks.py", '& 15, blocks["scales"] >> 4', '& 15, blocks["scales"] >> 3'),),
    ),
    (
        "tests/formats",
        (("formats/files.py", "offset + done)", "offset)"),),
    ),
    (
        "tests/formats/test_safetensors.py tests/formats/test_safetensors_errors.py "
        "tests/formats/test_files.py tests/formats/test_strict_json.py",
        (
            ("formats/files.py", "target.is_relative_to(home)", "str(target).startswith(str(home))"),
            ("formats/safetensors_header.py", "if info.offset != end:", "if info.offset < end:"),
            ("formats/safetensors_header.py", "room.nbytes - length", "room.nbytes"),
            ("formats/safetensors_header.py", "if last > room:", "if last > room + 8:"),
            ("formats/safetensors.py", "if len(found) > len(listed):", "if not listed:"),
            ("formats/strict_json.py", "if len(made) < len(pairs):", "if not made and pairs:"),
        ),
    ),
    (
        "tests/llm/test_embeddings.py",
        (
            ("models/decoder_graph.py", "causal=not model.encoder", "causal=True"),
            ("models/decoder_graph.py", "if not (model.embeds and self.cached)", "if True"),
            ("models/pooling.py", "len(kinds) == 3", "True"),
            (
                "llm/embedding_model.py",
                "page[:, None] + np.arange(",
                "np.zeros_like(page[:, None]) + np.arange(",
            ),
            ("llm/embedding_model.py", 'last - np.int32(1) if kind == "last"', 'last if kind == "last"'),
            ("llm/embedding_model.py", "tokens[: most - 1] + tokens[-1:]", "tokens[:most]"),
            ("llm/embedding_model.py", 'else "mean"]', 'else "unit"]'),
        ),
    ),
    (
        "tests/llm/test_small.py",
        (
            ("models/decoder_graph.py", "return final, logits,", "return x, logits,"),
            ("models/decoder_graph.py", "if not (model.embeds and self.cached)", "if not self.cached"),
        ),
    ),
    (
        "tests/llm/test_interrupted.py",
        (("llm/sequence.py", "len(self.top_logprobs)) - 1)", "len(self.top_logprobs)))"),),
    ),
)
