"""Writes the model as guide.gguf with its card, from the ONNX file and the JSON files beside it.

usage: to_gguf.py MODEL_DIR OUT_DIR [--f16]

The int8 weights go into the Q8_0 blocks as they are, each block with the scale of its row: only the scales are rounded,
to 16 bits. `--f16` writes the restored weights in 16 bits instead.
"""
import hashlib
import json
import os
import sys

import gguf
import numpy as np
import onnx
from onnx import numpy_helper

BLOCK = 32
LAYER = {'input_layernorm': 'attn_norm', 'post_attention_layernorm': 'ffn_norm', 'self_attn.q_proj': 'attn_q',
         'self_attn.k_proj': 'attn_k', 'self_attn.v_proj': 'attn_v', 'self_attn.o_proj': 'attn_output',
         'mlp.gate_proj': 'ffn_gate', 'mlp.up_proj': 'ffn_up', 'mlp.down_proj': 'ffn_down'}
# Entries of the file, in their order, and the key of config.json.
FACTS = {'vocab_size': 'vocab_size', 'context_length': 'max_position_embeddings', 'embedding_length': 'hidden_size',
         'block_count': 'num_hidden_layers', 'feed_forward_length': 'intermediate_size',
         'head_count': 'num_attention_heads', 'head_count_kv': 'num_key_value_heads', 'key_length': 'head_dim',
         'value_length': 'head_dim', 'rope_dimension_count': 'head_dim', 'rope_freq_base': 'rope_theta',
         'layer_norm_rms_eps': 'rms_norm_eps'}


def interleaved(rows, heads):
    """Rows of q or k in the order of llama.cpp: it rotates neighbours, the ONNX graph rotates the two halves of a head."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def q8_0(weights, scales):
    """Blocks of a 16-bit scale and 32 weights, as bytes."""
    rows, columns = weights.shape
    blocks = np.empty((rows, columns // BLOCK, 2 + BLOCK), np.uint8)
    blocks[:, :, :2] = scales.astype('<f2').view(np.uint8).reshape(rows, 1, 2)
    blocks[:, :, 2:] = weights.view(np.uint8).reshape(rows, columns // BLOCK, BLOCK)
    return blocks.reshape(rows, -1)


def add_metadata(out, config, file_type):
    out.add_type('model')
    out.add_name('svc/guide')
    out.add_description('A demo that knows only svc and can be wrong.')
    out.add_license('mit')
    out.add_languages(['en'])
    out.add_file_type(file_type)
    out.add_quantization_version(gguf.GGML_QUANT_VERSION)
    out.add_sampling_temp(0.0)
    for name, key in FACTS.items():
        getattr(out, f'add_{name}')(config[key])


def add_tokenizer(out, tokenizer, config, texts):
    tokens = sorted(tokenizer['model']['vocab'], key=tokenizer['model']['vocab'].get)
    special = {token['content'] for token in tokenizer['added_tokens']}
    types = [gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token in tokens]
    out.add_tokenizer_model('gpt2')
    # Splits text as the ByteLevel pre-tokenizer of tokenizer.json does. `gpt-2` does too, but for it llama.cpp deletes
    # spaces before full stops and quotes when it restores text.
    out.add_tokenizer_pre('trillion')
    out.add_token_list(tokens)
    out.add_token_types(types)
    out.add_token_merges(tokenizer['model']['merges'])
    # The model has no first token; without the entry llama.cpp uses number 11, a letter here.
    out.add_bos_token_id(config['eos_token_id'])
    out.add_eos_token_id(config['eos_token_id'])
    out.add_eot_token_id(config['eos_token_id'])
    out.add_pad_token_id(config['pad_token_id'])
    out.add_add_bos_token(False)
    out.add_add_eos_token(False)
    out.add_add_space_prefix(False)
    out.add_chat_template(texts['chat_template'])


def add_weights(out, constants, config, f16):
    heads = {'attn_q': config['num_attention_heads'], 'attn_k': config['num_key_value_heads']}
    names = {'model.embed_tokens.weight': 'token_embd', 'model.norm.weight': 'output_norm'}
    for n in range(config['num_hidden_layers']):
        names.update({f'model.layers.{n}.{key}.weight': f'blk.{n}.{name}' for key, name in LAYER.items()})
    for key, name in names.items():
        weights, scales = constants[key], constants.get(f'{key}.scale')
        turned = heads.get(name.rsplit('.')[-1])
        if turned is not None:
            weights, scales = interleaved(weights, turned), interleaved(scales, turned)
        if scales is None:
            out.add_tensor(f'{name}.weight', weights)
        elif f16:
            out.add_tensor(f'{name}.weight', (weights * scales).astype('f2'))
        else:
            out.add_tensor(f'{name}.weight', q8_0(weights, scales), raw_dtype=gguf.GGMLQuantizationType.Q8_0)


CARD = """\
# Written by to_gguf.py; the bytes and the hash are those of the file beside it.
modelId: svc/guide
revision: "{revision}"
title: The guide that ships with svc, a demo
description: A demo of {millions} million parameters that shows chat without a download. It knows only svc, answers
  with the sheets of `svc help`, and can be wrong.
tasks:
  - chat
  - completions
family: llama
engine: llama-server
backends:
  - cpu
files:
  - path: guide.gguf
    role: weights
    bytes: {bytes}
    sha256: {digest}
totalBytes: {bytes}
parameters: {parameters}
nLayers: {num_hidden_layers}
hiddenSize: {hidden_size}
heads: {num_attention_heads}
kvHeads: {num_key_value_heads}
headSize: {head_dim}
contextLength: {max_position_embeddings}
supportsTensor: false
companions: []
licence: MIT, as svc
languages:
  - en
quantization: {quantization}
voices: []
defaults:
  temperature: 0
support:
  demo: a demo with few answers; for anything else pull a larger model
  temperature: 0 unless the request says otherwise; above it the answers fall apart
  tools: "no effect: the chat template has no place for them"
"""


def write_card(path, config, constants, f16):
    """The revision is the start of the hash of the weights: another training is another revision."""
    with open(path, 'rb') as f:
        data = f.read()
    digest = hashlib.sha256(data).hexdigest()
    parameters = sum(array.size for name, array in constants.items() if name.endswith('.weight'))
    with open(os.path.join(os.path.dirname(path), 'card.yaml'), 'w') as f:
        f.write(CARD.format(**config, bytes=len(data), digest=digest, revision=digest[:12],
                            quantization='F16' if f16 else 'Q8_0', parameters=parameters,
                            millions=round(parameters / 1e6, 1)))


def main():
    f16 = '--f16' in sys.argv
    folder, out_folder = [a for a in sys.argv[1:] if a != '--f16']
    path = f'{out_folder}/guide.gguf'

    def read(name):
        with open(f'{folder}/{name}.json') as f:
            return json.load(f)

    config = read('config')
    graph = onnx.load(f'{folder}/onnx/model_quantized.onnx').graph
    constants = {constant.name: numpy_helper.to_array(constant) for constant in graph.initializer}
    out = gguf.GGUFWriter(path, 'llama')
    add_metadata(out, config, gguf.LlamaFileType.MOSTLY_F16 if f16 else gguf.LlamaFileType.MOSTLY_Q8_0)
    add_tokenizer(out, read('tokenizer'), config, read('tokenizer_config'))
    add_weights(out, constants, config, f16)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    write_card(path, config, constants, f16)


if __name__ == '__main__':
    main()
