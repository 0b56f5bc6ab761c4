"""Writes a llama GGUF as a folder of safetensors for transformers, MLX and vLLM: safetensors.py SRC.gguf OUT"""
import json, struct, sys
import numpy as np
from gguf import GGUFReader, quants

source, out = sys.argv[1:3]
reader = GGUFReader(source)

def value(key, default=None):
    field = reader.fields.get(key)
    return default if field is None else field.contents()

layers, heads = value('llama.block_count'), value('llama.attention.head_count')
kv_heads, hidden = value('llama.attention.head_count_kv'), value('llama.embedding_length')
NAMES = {'attn_q': 'self_attn.q_proj', 'attn_k': 'self_attn.k_proj', 'attn_v': 'self_attn.v_proj',
         'attn_output': 'self_attn.o_proj', 'ffn_gate': 'mlp.gate_proj', 'ffn_up': 'mlp.up_proj',
         'ffn_down': 'mlp.down_proj', 'attn_norm': 'input_layernorm', 'ffn_norm': 'post_attention_layernorm'}

def named(name):
    if name.startswith('blk.'):
        _, layer, part, kind = name.split('.')
        return f'model.layers.{layer}.{NAMES[part]}.{kind}'
    return {'token_embd.weight': 'model.embed_tokens.weight', 'output_norm.weight': 'model.norm.weight',
            'output.weight': 'lm_head.weight'}[name]

def unpermuted(rows, count):
    """llama.cpp interleaves the halves of each rotary head."""
    return rows.reshape(count, rows.shape[0] // count // 2, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)

tensors, header, offset = [], {}, 0
for tensor in reader.tensors:
    data = quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    data = data.reshape(tuple(int(n) for n in reversed(tensor.shape)))
    if '.attn_q.' in tensor.name: data = unpermuted(data, heads)
    if '.attn_k.' in tensor.name: data = unpermuted(data, kv_heads)
    # bfloat16, rounded to nearest even
    bits = np.ascontiguousarray(data).view(np.uint32)
    half = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()
    header[named(tensor.name)] = {'dtype': 'BF16', 'shape': list(data.shape), 'data_offsets': [offset, offset + len(half)]}
    offset += len(half)
    tensors.append(half)
text = json.dumps(header).encode()
text += b' ' * (-len(text) % 8)
with open(f'{out}/model.safetensors', 'wb') as file:
    file.write(struct.pack('<Q', len(text)) + text)
    for half in tensors: file.write(half)

tokens, merges, kinds = (value(f'tokenizer.ggml.{key}') for key in ('tokens', 'merges', 'token_type'))
special = [i for i, kind in enumerate(kinds) if kind == 3]
def token(key): return tokens[value(f'tokenizer.ggml.{key}_token_id', 0)]
byte_level = {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': True}
tokenizer = {
    'version': '1.0', 'truncation': None, 'padding': None, 'normalizer': None,
    'added_tokens': [{'id': i, 'content': tokens[i], 'single_word': False, 'lstrip': False, 'rstrip': False,
                      'normalized': False, 'special': True} for i in special],
    'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [{'type': 'Digits', 'individual_digits': True}, byte_level]},
    'post_processor': None, 'decoder': byte_level,
    'model': {'type': 'BPE', 'dropout': None, 'unk_token': None, 'continuing_subword_prefix': None,
              'end_of_word_suffix': None, 'fuse_unk': False, 'byte_fallback': False,
              'vocab': {text: i for i, text in enumerate(tokens)}, 'merges': merges}}
config = {
    'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_size': hidden, 'num_hidden_layers': layers,
    'num_attention_heads': heads, 'num_key_value_heads': kv_heads, 'intermediate_size': value('llama.feed_forward_length'),
    'max_position_embeddings': value('llama.context_length'), 'rms_norm_eps': value('llama.attention.layer_norm_rms_epsilon'),
    'rope_theta': value('llama.rope.freq_base', 10000.0), 'vocab_size': len(tokens), 'torch_dtype': 'bfloat16',
    'tie_word_embeddings': 'lm_head.weight' not in header, 'hidden_act': 'silu', 'attention_bias': False, 'mlp_bias': False,
    'bos_token_id': value('tokenizer.ggml.bos_token_id'), 'eos_token_id': value('tokenizer.ggml.eos_token_id')}
settings = {'tokenizer_class': 'PreTrainedTokenizerFast', 'bos_token': token('bos'), 'eos_token': token('eos'),
            'unk_token': token('unknown'), 'model_max_length': value('llama.context_length'),
            'clean_up_tokenization_spaces': False, 'chat_template': value('tokenizer.chat_template')}
for name, content in (('tokenizer.json', tokenizer), ('config.json', config), ('tokenizer_config.json', settings)):
    with open(f'{out}/{name}', 'w') as file: json.dump(content, file, ensure_ascii=False)
