# SPDX-License-Identifier: Apache-2.0
"""tokens_checks.py -- kvrail.hf with the real transformers and a real kv-server. Speaks TAP.

Another process (`tokens_checks.py store ADDRESS FILE`) computes and stores; this one loads, and compares with the keys,
values, logits and tokens of the other: bitwise, because both split the prompt at the same token and use the same class
of cache. Models are small and random; a seed makes them equal in both processes."""

import contextlib
import io
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

import tap
import torch
from transformers import (
    AutoModelForCausalLM,
    DeepseekV3Config,
    DynamicCache,
    GptOssConfig,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    Qwen3Config,
    T5Config,
    T5ForConditionalGeneration,
)

import kvrail
import kvrail.hf

ROWS, TOKENS, KNOWN, BLOCK, NEW = 2, 200, 192, 16, 16
SMALL = {
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 4096,
    "initializer_range": 0.1,
}
EXPERTS = {"num_experts_per_tok": 2, "num_local_experts": 4}
LATENT = {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 32,
    "kv_lora_rank": 16,
    "q_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 12,
}
CONFIGS = {
    "grouped-query attention (Llama)": LlamaConfig(**SMALL),
    "normed keys (Qwen3)": Qwen3Config(**SMALL, head_dim=16),
    "sliding windows (Mistral)": MistralConfig(**SMALL, sliding_window=64),
    "every second layer slides (GPT-OSS)": GptOssConfig(
        **SMALL, **EXPERTS, head_dim=16, sliding_window=32
    ),
    "latent attention (DeepSeek-V3)": DeepseekV3Config(
        **SMALL | {"num_key_value_heads": 4} | LATENT
    ),
}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
# One forward rounds otherwise than two steps: the largest difference of a logit, seen 1e-5 and 0.047.
NEAR = {"fp32": 1e-3, "bf16": 0.25}
seed = int(os.environ.get("KVRAIL_TEST_SEED", time.time_ns() % 1_000_000))
rng = random.Random(seed)


def model_of(name="grouped-query attention (Llama)", dtype="fp32", seed=1):
    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config(CONFIGS[name]).to(DTYPES[dtype]).eval()


def prompt(seed, rows=ROWS, tokens=TOKENS):
    return torch.randint(1, 512, (rows, tokens), generator=torch.Generator().manual_seed(seed))


def cache_of(model, server, **options):
    address = getattr(server, "address", server)
    return kvrail.hf.PrefixCache(model, address, block=BLOCK, num_clients=1, **options)


def logits_of(model, ids, past):
    """Of the last token. The cache has the first tokens; the others are computed."""
    with torch.inference_mode():
        return model(input_ids=ids[:, past.get_seq_length() :], cache=past).logits[:, -1]


def filled(prefix, model, ids):
    """A cache that has these tokens."""
    past = prefix.empty()
    logits_of(model, ids, past)
    return past


def generated(model, ids, past, new=NEW, mask=None):
    mask = torch.ones_like(ids) if mask is None else mask
    return model.generate(
        ids,
        attention_mask=mask,
        cache=past,
        max_new_tokens=new,
        do_sample=False,
        pad_token_id=0,
    )


def tensors_of(past):
    return [tensor for layer in past.layers for tensor in (layer.keys, layer.values)]


def equal(some, others):
    return all(torch.equal(a, b) for a, b in zip(some, others, strict=True))


def store(address, file):
    """The other process: for each model, what it had in memory."""
    seen = {}
    for name in CONFIGS:
        for dtype in DTYPES:
            model, ids = model_of(name, dtype), prompt(7)
            with cache_of(model, address) as prefix:
                past = filled(prefix, model, ids[:, :KNOWN])
                tensors = [tensor.clone() for tensor in tensors_of(past)]
                stored = prefix.store(ids[:, :KNOWN], past)
                assert stored == ROWS * KNOWN // BLOCK, (name, dtype, stored)
                assert prefix.store(ids[:, :KNOWN], past) == 0  # they are there
                answer = generated(model, ids, past)
                usual = DynamicCache(config=model.config)  # as without kvrail
                logits_of(model, ids[:, :KNOWN], usual)
                logits = logits_of(model, ids, usual)
                full = logits_of(model, ids, DynamicCache(config=model.config))
                seen[name, dtype] = (tensors, logits, full, answer)
    torch.save(seen, file)


def test_a_fresh_process_computes_the_same_tokens(server):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([sys.executable, __file__, "store", server.address, file.name], check=True)
        seen = torch.load(file.name)
    assert len(seen) == len(CONFIGS) * len(DTYPES)
    for (name, dtype), (tensors, logits, full, answer) in seen.items():
        model, ids = model_of(name, dtype), prompt(7)
        with cache_of(model, server) as prefix:
            past = prefix.load(ids)
            assert past.get_seq_length() == KNOWN, (name, dtype, past.get_seq_length())
            assert equal(tensors_of(past), tensors), (name, dtype, "other keys and values")
            ours = logits_of(model, ids, past)
            assert torch.equal(ours, logits), (name, dtype, (ours - logits).abs().max())
            off = (ours - full).abs().max().item()
            assert off <= NEAR[dtype], (name, dtype, off)
            assert torch.equal(generated(model, ids, prefix.load(ids)), answer), (name, dtype)
            print(
                f"# {name}, {dtype}: {off:.1e} from one forward, {prefix.block_bytes} bytes a block"
            )


def test_one_wrong_block_changes_the_logits(server):
    """The control: the comparison above sees it."""
    model, ids = model_of(), prompt(8)
    with cache_of(model, server) as prefix:
        past = filled(prefix, model, ids[:, :KNOWN])
        right = logits_of(model, ids, past)
        past = filled(prefix, model, ids[:, :KNOWN])
        keys = past.layers[0].keys = past.layers[0].keys.clone()
        keys[:, :, 32:48] = keys[:, :, 48:64]
        assert (logits_of(model, ids, past) - right).abs().max() > 10 * NEAR["fp32"]


def test_time_to_the_first_token(server):
    """Printed, not compared: it depends on the machine."""
    config = LlamaConfig(**SMALL | {"hidden_size": 256, "intermediate_size": 1024})
    torch.manual_seed(1)
    model, ids = AutoModelForCausalLM.from_config(config).eval(), prompt(9, 1, 1025)
    with cache_of(model, server) as prefix:
        times = []
        for _ in range(2):
            begin = time.perf_counter()
            past = prefix.load(ids)
            reused = past.get_seq_length()
            logits_of(model, ids, past)
            times.append(1000 * (time.perf_counter() - begin))
            prefix.store(ids, past)
    assert reused == 1024
    print(
        f"# first token of {ids.shape[1]}: {times[0]:.0f} ms without, {times[1]:.0f} ms with {reused} reused"
    )


def test_a_conversation_goes_on(server):
    """The answer is a part of the next prompt, and each turn loads all whole blocks before it."""
    model, ids = model_of(), prompt(10, 1, 40)
    with cache_of(model, server) as prefix:
        known = 0
        for turn in range(3):
            past = prefix.load(ids)
            assert past.get_seq_length() == known, (turn, past.get_seq_length(), known)
            output = generated(model, ids, past)
            alone = generated(model, ids, DynamicCache(config=model.config))
            assert torch.equal(output, alone), turn
            prefix.store(output, past)
            known = (
                (output.shape[1] - 1) // BLOCK * BLOCK
            )  # nobody has computed the last token's keys
            ids = torch.cat([output, prompt(20 + turn, 1, 21)], dim=1)


def test_rows_with_padding_share_blocks_with_rows_without(server):
    model, long = model_of("sliding windows (Mistral)"), prompt(11, 2, 100)
    ids, mask = long.clone(), torch.ones_like(long)
    ids[1, :37], mask[1, :37] = 0, 0
    with cache_of(model, server) as prefix:
        past = prefix.load(ids, mask)
        assert past.get_seq_length() == 0
        output = generated(model, ids, past, mask=mask)
        assert prefix.store(output, past, mask) == 7 + 4  # whole blocks of 115 and of 78 tokens
        again = prefix.load(ids, mask)
        assert again.get_seq_length() == 37 + 48, again.get_seq_length()
        assert torch.equal(generated(model, ids, again, mask=mask), output)
        alone = ids[1:, 37:]  # the same tokens at the same positions
        assert prefix.load(alone).get_seq_length() == 48
        assert torch.equal(generated(model, alone, prefix.load(alone))[0], output[1, 37:])
        assert prefix.load(torch.cat([alone, alone])).get_seq_length() == 48


def test_one_token_is_left_to_compute(server):
    model, ids = model_of(), prompt(12, 1, 64)
    with cache_of(model, server) as prefix:
        assert prefix.store(ids, filled(prefix, model, ids)) == 4
        for tokens, known in ((64, 48), (65, 64), (16, 0), (17, 16), (1, 0)):
            some = torch.cat([ids, ids], dim=1)[:, :tokens]
            assert prefix.load(some).get_seq_length() == known, tokens


def test_a_lost_block_ends_the_prefix_and_is_repaired(server):
    model, ids = model_of(), prompt(13, 1)
    with cache_of(model, server) as prefix:
        past = filled(prefix, model, ids)
        assert prefix.store(ids, past) == 12
        names = prefix.names(ids[0])
        assert len(names) == 12
        assert prefix.client.delete(names[5])
        assert prefix.load(ids).get_seq_length() == 5 * BLOCK
        assert prefix.store(ids, past) == 1
        assert prefix.load(ids).get_seq_length() == KNOWN


def test_other_weights_types_and_salts_find_nothing(server):
    model, ids = model_of(), prompt(14)
    with cache_of(model, server) as prefix:
        assert prefix.store(ids, filled(prefix, model, ids)) > 0
        name = prefix.namespace
        assert prefix.load(ids).get_seq_length() == KNOWN
    other_weight = model_of()
    with torch.no_grad():
        other_weight.model.layers[1].mlp.up_proj.weight.mul_(1.5)
    others = {
        "weights": (model_of(seed=2), {}),
        "weights of a layer": (other_weight, {}),
        "type": (model_of(dtype="bf16"), {}),
        "salt": (model, {"salt": "tenant-2"}),
        "text for weights": (model, {"weights": "step-2"}),
        "namespace": (model, {"namespace": "test"}),
    }
    for what, (other, options) in others.items():
        with cache_of(other, server, **options) as prefix:
            assert prefix.load(ids).get_seq_length() == 0, what
            assert what == "salt" or prefix.namespace != name, what
    with kvrail.hf.PrefixCache(model, server.address, block=32) as prefix:
        assert prefix.load(ids).get_seq_length() == 0
    with cache_of(model_of(), server) as prefix:  # made again, it is the same model
        assert prefix.namespace == name
        assert prefix.load(ids).get_seq_length() == KNOWN


def test_a_model_of_a_folder_shares_with_the_same_one_built_in_place(server):
    model, ids = model_of(), prompt(22)
    with tempfile.TemporaryDirectory() as folder, cache_of(model, server) as prefix:
        prefix.store(ids, filled(prefix, model, ids))
        model.save_pretrained(folder)
        loaded = AutoModelForCausalLM.from_pretrained(folder).eval()
        with cache_of(loaded, server) as other:
            assert other.load(ids).get_seq_length() == KNOWN


def test_a_text_that_lies_about_weights_is_believed(server):
    """`weights` is the caller's word. It is why the fingerprint is computed by default."""
    model, other, ids = model_of(), model_of(seed=2), prompt(15)
    with cache_of(model, server, weights="same") as prefix:
        prefix.store(ids, filled(prefix, model, ids))
    with cache_of(other, server, weights="same") as prefix:
        past = prefix.load(ids)
        assert past.get_seq_length() == KNOWN
        right = logits_of(other, ids, DynamicCache(config=other.config))
        assert (logits_of(other, ids, past) - right).abs().max() > 10 * NEAR["fp32"]


def test_a_cleared_namespace_is_empty_and_others_are_not(server):
    model, other, ids = model_of(), model_of(seed=3), prompt(16)
    with cache_of(model, server) as prefix, cache_of(other, server) as beside:
        prefix.store(ids, filled(prefix, model, ids))
        beside.store(ids, filled(beside, other, ids))
        prefix.clear()
        assert prefix.load(ids).get_seq_length() == 0
        assert beside.load(ids).get_seq_length() == KNOWN
        assert prefix.store(ids, filled(prefix, model, ids)) > 0
        assert prefix.load(ids).get_seq_length() == KNOWN


def test_a_killed_server_costs_hits_and_no_token(server):
    model, ids = model_of(), prompt(17)
    right = generated(model, ids, DynamicCache(config=model.config))
    with kvrail.Server(memory_mb=64) as own, cache_of(model, own) as prefix:
        past = filled(prefix, model, ids)
        assert prefix.store(ids, past) > 0
        own.kill()
        lost = prefix.load(ids)
        assert lost.get_seq_length() == 0
        assert torch.equal(generated(model, ids, lost), right)
        assert prefix.store(ids, past) == 0
        own.restart()
        end = time.monotonic() + 60
        while prefix.store(ids, past) == 0:
            assert time.monotonic() < end, prefix.client.servers()
            time.sleep(0.1)
        assert prefix.load(ids).get_seq_length() == KNOWN


def test_a_server_killed_during_a_load_costs_hits_and_no_token(server):
    model, ids = model_of(), prompt(18, 1, 2000)
    right = generated(model, ids, DynamicCache(config=model.config), 4)
    known = []
    for _ in range(6):
        with kvrail.Server(memory_mb=64) as own, cache_of(model, own) as prefix:
            prefix.store(ids, filled(prefix, model, ids))
            begin = time.monotonic()
            assert prefix.load(ids).get_seq_length() == 1984
            killer = threading.Timer(rng.uniform(0, time.monotonic() - begin), own.kill)
            killer.start()
            past = prefix.load(ids)
            killer.join()
            known.append(past.get_seq_length())
            assert torch.equal(generated(model, ids, past, 4), right), known
    print(f"# KVRAIL_TEST_SEED={seed}, tokens that came: {known}")


def test_a_warm_restart_keeps_the_prompts(server):
    model, ids = model_of(), prompt(19)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        kept = {"keep": f"{folder}/index", "arena_file": f"{folder}/arena"}
        with kvrail.Server(memory_mb=64, **kept) as own:
            with cache_of(model, own) as prefix:
                assert prefix.store(ids, filled(prefix, model, ids)) > 0
            assert own.stop() == 0
            own.restart()
            with cache_of(model, own) as prefix:
                assert prefix.load(ids).get_seq_length() == KNOWN, own.log()
            own.stop()
            for file in pathlib.Path(folder).iterdir():
                file.unlink()
            own.restart()  # the control: without the files it begins empty
            with cache_of(model, own) as prefix:
                assert prefix.load(ids).get_seq_length() == 0


def test_the_examples_of_the_readme_and_the_guide_run(server):
    tree = pathlib.Path(__file__).resolve().parents[2]
    for page in ("README.md", "docs/guide/tokens.md"):
        (code,) = re.findall(r"```python\n(.*?)```", (tree / page).read_text(), re.S)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            for _ in range(2):
                exec(code.replace('"127.0.0.1:7411"', "servers"), {"servers": server.address})
        reused = [int(line.split()[0]) for line in said.getvalue().splitlines()]
        assert (reused[0], reused[-1]) == (0, 192 if page == "README.md" else 96), (page, reused)


def refused(words, call, *args, **options):
    try:
        call(*args, **options)
    except (TypeError, ValueError) as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"nothing said: {words}")


def test_what_it_cannot_serve_it_refuses_with_a_sentence(server):
    mamba = AutoModelForCausalLM.from_config(
        MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=1)
    )
    refused("kvrail.hf cannot serve this model", cache_of, mamba, server)
    pair = T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=4)
    refused("has an encoder", cache_of, T5ForConditionalGeneration(pair), server)
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    moving = AutoModelForCausalLM.from_config(LlamaConfig(**SMALL, rope_parameters=rope))
    refused("RoPE depends on the length", cache_of, moving, server)
    model, ids = model_of("sliding windows (Mistral)"), prompt(21)
    refused("model of transformers, not str", kvrail.hf.PrefixCache, "llama", server.address)
    refused("a block has 1 token or more", kvrail.hf.PrefixCache, model, server.address, block=0)
    with cache_of(model, server) as prefix:
        usual = DynamicCache(config=model.config)
        logits_of(model, ids, usual)
        refused("dropped the tokens outside its window", prefix.store, ids, usual)
        refused("the cache has 200 tokens", prefix.store, ids[:, :100], usual)
        refused("the cache has 200 tokens of 2 rows", prefix.store, ids[:1], usual)
        mask = torch.ones_like(ids)
        mask[0, -3:] = 0
        refused("padding must be on the left", prefix.load, ids, mask)
        refused("the attention mask has the shape", prefix.load, ids, mask[:1])
        refused("input_ids has the shape", prefix.load, ids[0])
        refused("input_ids is a tensor, not list", prefix.load, [1, 2])
    for call in (lambda: prefix.load(ids), lambda: prefix.store(ids, filled(prefix, model, ids))):
        try:
            call()
        except kvrail.Closed:
            continue
        raise AssertionError("a closed client was used")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["store"]:
        sys.exit(store(*sys.argv[2:]))
    sys.exit(tap.run("tokens", globals()) > 0)
