"""Writes the model as ONNX in the layout of Optimum: int8 weights with one scale per row, restored at load.

usage: export.py MODEL.pt TOKENIZER_DIR OUT_DIR
"""
import json
import os
import shutil
import sys

import numpy as np
import onnx
import torch
from onnx import TensorProto as T
from onnx import helper, numpy_helper


class Graph:
    """Collects nodes and constants; a value is known by its name."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def const(self, name, array):
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def op(self, kind, inputs, output=None, **attributes):
        output = output or f'{kind}_{len(self.nodes) + 1}'
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def weight(self, name, array):
        """A matrix [out, in], stored small; constant folding restores fp32 at load."""
        scale = np.abs(array).max(1, keepdims=True) / 127
        scale[scale == 0] = 1
        self.const(name, np.round(array / scale).astype('i1'))
        self.const(f'{name}.scale', scale.astype('f4'))
        return self.op('Mul', [self.op('Cast', [name], to=T.FLOAT), f'{name}.scale'])

    def linear(self, x, name, array):
        return self.op('MatMul', [x, self.op('Transpose', [self.weight(name, array)], perm=[1, 0])])

    def norm(self, x, name, array):
        self.const(name, array.astype('f4'))
        mean = self.op('ReduceMean', [self.op('Mul', [x, x])], axes=[-1], keepdims=1)
        return self.op('Mul', [self.op('Div', [x, self.op('Sqrt', [self.op('Add', [mean, 'eps'])])]), name])

    def rotate(self, x, cos, sin):
        first = self.op('Slice', [x, 'a0', 'half', 'axm1'])
        second = self.op('Slice', [x, 'half', 'full', 'axm1'])
        turned = self.op('Concat', [self.op('Neg', [second]), first], axis=-1)
        return self.op('Add', [self.op('Mul', [x, cos]), self.op('Mul', [turned, sin])])


def common_constants(g, c):
    for name, value in dict(i0=0, i1=1, a1=[1], a0=[0], half=[c['hs'] // 2], full=[c['hs']], axm1=[-1], u012=[0, 1, 2],
                            u013=[0, 1, 3], u12=[1, 2], heads=[0, 0, c['H'], c['hs']],
                            flat=[0, 0, c['H'] * c['hs']]).items():
        g.const(name, np.array(value, 'i8'))
    for name, value in dict(eps=c['eps'], scale=c['hs'] ** -.5, zero=0, minus=-1e9).items():
        g.const(name, np.array(value, 'f4'))
    rates = 1 / (c['theta'] ** (np.arange(0, c['hs'], 2) / c['hs']))
    angles = np.outer(np.arange(c['S']), rates)
    angles = np.concatenate([angles, angles], 1)
    g.const('cos_table', np.cos(angles).astype('f4'))
    g.const('sin_table', np.sin(angles).astype('f4'))


def mask_of(g):
    """0 for visible keys, else a large negative number: causal, and the caller's attention mask."""
    total = g.op('Gather', [g.op('Shape', ['attention_mask']), 'i1'])
    past = g.op('Sub', [total, g.op('Gather', [g.op('Shape', ['input_ids']), 'i1'])])
    keys = g.op('Unsqueeze', [g.op('Range', ['i0', total, 'i1']), 'u012'])
    queries = g.op('Unsqueeze', [g.op('Range', [past, total, 'i1']), 'u013'])
    given = g.op('Cast', [g.op('Unsqueeze', ['attention_mask', 'u12'])], to=T.BOOL)
    seen = g.op('And', [g.op('LessOrEqual', [keys, queries]), given])
    return g.op('Where', [seen, 'zero', 'minus'])


def layer(g, c, w, n, x, mask, cos, sin):
    prefix, width, hidden = f'model.layers.{n}.', c['H'] * c['hs'], c['hid']

    def of(key):
        return w[f'ls.{n}.{key}']

    def split(t):
        return g.op('Transpose', [g.op('Reshape', [t, 'heads'])], perm=[0, 2, 1, 3])

    a = g.norm(x, prefix + 'input_layernorm.weight', of('n1'))
    q, k, v = [split(g.linear(a, f'{prefix}self_attn.{name}_proj.weight', of('qkv')[i * width:(i + 1) * width]))
               for i, name in enumerate('qkv')]
    keys = g.op('Concat', [f'past_key_values.{n}.key', g.rotate(k, cos, sin)], f'present.{n}.key', axis=2)
    values = g.op('Concat', [f'past_key_values.{n}.value', v], f'present.{n}.value', axis=2)
    asked = g.op('Mul', [g.rotate(q, cos, sin), 'scale'])
    scores = g.op('Add', [g.op('MatMul', [asked, g.op('Transpose', [keys], perm=[0, 1, 3, 2])]), mask])
    seen = g.op('MatMul', [g.op('Softmax', [scores], axis=-1), values])
    joined = g.op('Reshape', [g.op('Transpose', [seen], perm=[0, 2, 1, 3]), 'flat'])
    x = g.op('Add', [x, g.linear(joined, prefix + 'self_attn.o_proj.weight', of('o'))])
    b = g.norm(x, prefix + 'post_attention_layernorm.weight', of('n2'))
    gate = g.linear(b, prefix + 'mlp.gate_proj.weight', of('gu')[:hidden])
    up = g.linear(b, prefix + 'mlp.up_proj.weight', of('gu')[hidden:])
    inner = g.op('Mul', [g.op('Mul', [gate, g.op('Sigmoid', [gate])]), up])
    return g.op('Add', [x, g.linear(inner, prefix + 'mlp.down_proj.weight', of('dn'))])


def build(c, w):
    g = Graph()
    common_constants(g, c)
    value = helper.make_tensor_value_info
    inputs = [value('input_ids', T.INT64, ['batch_size', 'sequence_length']),
              value('attention_mask', T.INT64, ['batch_size', 'total_sequence_length']),
              value('position_ids', T.INT64, ['batch_size', 'sequence_length'])]
    outputs = [value('logits', T.FLOAT, ['batch_size', 'sequence_length', c['V']])]
    for n in range(c['L']):
        for kind in ('key', 'value'):
            shape = ['batch_size', c['H'], 'past_sequence_length', c['hs']]
            inputs.append(value(f'past_key_values.{n}.{kind}', T.FLOAT, shape))
            outputs.append(value(f'present.{n}.{kind}', T.FLOAT, [*shape[:2], 'total_sequence_length', c['hs']]))
    mask = mask_of(g)
    cos, sin = [g.op('Unsqueeze', [g.op('Gather', [f'{name}_table', 'position_ids']), 'a1']) for name in ('cos', 'sin')]
    embedding = g.weight('model.embed_tokens.weight', w['emb'])
    x = g.op('Gather', [embedding, 'input_ids'])
    for n in range(c['L']):
        x = layer(g, c, w, n, x, mask, cos, sin)
    g.op('MatMul', [g.norm(x, 'model.norm.weight', w['nf']), g.op('Transpose', [embedding], perm=[1, 0])], 'logits')
    graph = helper.make_graph(g.nodes, 'svc-guide', inputs, outputs, g.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 14)], producer_name='svc-guide')
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def configuration(c):
    return dict(architectures=['LlamaForCausalLM'], model_type='llama', vocab_size=c['V'], hidden_size=c['d'],
                intermediate_size=c['hid'], num_hidden_layers=c['L'], num_attention_heads=c['H'],
                num_key_value_heads=c['KV'], head_dim=c['hs'], max_position_embeddings=c['S'], rms_norm_eps=c['eps'],
                rope_theta=c['theta'], hidden_act='silu', attention_bias=False, mlp_bias=False,
                tie_word_embeddings=True, bos_token_id=None, eos_token_id=1, pad_token_id=0, torch_dtype='float32',
                use_cache=True)


LONGEST_ANSWER = 160


def main():
    checkpoint, tokenizer, out = sys.argv[1:4]
    saved = torch.load(checkpoint)
    c, w = saved['cfg'], {name: tensor.numpy() for name, tensor in saved['sd'].items()}
    os.makedirs(f'{out}/onnx', exist_ok=True)
    graph = 'onnx/model_quantized.onnx'
    onnx.save(build(c, w), f'{out}/{graph}')
    texts = ['tokenizer.json', 'tokenizer_config.json', 'special_tokens_map.json']
    for name in texts:
        shutil.copyfile(f'{tokenizer}/{name}', f'{out}/{name}')
    generation = dict(eos_token_id=1, pad_token_id=0, do_sample=False, max_new_tokens=LONGEST_ANSWER)
    for name, value in (('config', configuration(c)), ('generation_config', generation)):
        with open(f'{out}/{name}.json', 'w') as f:
            json.dump(value, f, indent=1)
    for name in [graph, *texts, 'config.json', 'generation_config.json']:
        print(name, os.path.getsize(f'{out}/{name}'), 'bytes')


if __name__ == '__main__':
    main()
