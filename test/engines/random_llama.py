"""Writes a random Llama with 8 heads, which 2 programs can split, with another model's tokenizer:
random_llama.py SRC OUT"""
import json, re, shutil, struct, sys
import numpy as np

source, out = sys.argv[1:3]
LAYERS, HIDDEN, HEADS, KV_HEADS, INNER = 4, 256, 8, 4, 512
config = json.load(open(f'{source}/config.json'))
vocabulary = json.load(open(f'{source}/tokenizer.json'))['model']['vocab']
config.update(num_hidden_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS,
              intermediate_size=INNER, tie_word_embeddings=False)
random = np.random.default_rng(7)
keys = HIDDEN // HEADS * KV_HEADS
# It writes these words only and never ends by itself. Few choices keep rounding from changing the text.
words = [i for text, i in vocabulary.items() if re.fullmatch('Ġ[a-z]{4,}', text)][:32]
head = np.zeros((len(vocabulary), HIDDEN))
head[words] = random.normal(size=(len(words), HIDDEN))
tensors = {'model.embed_tokens': random.normal(size=head.shape), 'model.norm': np.ones(HIDDEN), 'lm_head': head}
for layer in range(LAYERS):
    for name, shape in (('self_attn.q_proj', (HIDDEN, HIDDEN)), ('self_attn.k_proj', (keys, HIDDEN)),
                        ('self_attn.v_proj', (keys, HIDDEN)), ('self_attn.o_proj', (HIDDEN, HIDDEN)),
                        ('mlp.gate_proj', (INNER, HIDDEN)), ('mlp.up_proj', (INNER, HIDDEN)),
                        ('mlp.down_proj', (HIDDEN, INNER))):
        tensors[f'model.layers.{layer}.{name}'] = random.normal(size=shape) / np.sqrt(shape[1])
    for name in ('input_layernorm', 'post_attention_layernorm'):
        tensors[f'model.layers.{layer}.{name}'] = np.ones(HIDDEN)
header, offset, parts = {}, 0, []
for name, data in tensors.items():
    half = (data.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    header[f'{name}.weight'] = {'dtype': 'BF16', 'shape': list(data.shape), 'data_offsets': [offset, offset + len(half)]}
    offset += len(half)
    parts.append(half)
text = json.dumps(header).encode()
text += b' ' * (-len(text) % 8)
with open(f'{out}/model.safetensors', 'wb') as file:
    file.write(struct.pack('<Q', len(text)) + text + b''.join(parts))
json.dump(config, open(f'{out}/config.json', 'w'))
for name in ('tokenizer.json', 'tokenizer_config.json'): shutil.copy(f'{source}/{name}', out)
