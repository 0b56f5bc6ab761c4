"""Writes Whisper's weights (CTranslate2 model.bin) as ONNX graphs in the form of the public exports.

python whisper_onnx.py FOLDER OUT: OUT/onnx has the encoder, and the decoder merged by an If on use_cache_branch,
each quantised dynamically to 8 bits per column (_quantized). Without FOLDER a tiny model with random weights is written, for
tests on any machine. Shapes in comments: B rows, T positions, H heads, D values per head.
"""
import json, os, re, shutil, struct, sys
import numpy as np
import onnx
from onnx import TensorProto as P, helper as h, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

SPECIAL = ['endoftext', 'startoftranscript', 'en', 'de', 'translate', 'transcribe', 'startofprev', 'nospeech',
           'notimestamps']
TINY = dict(layers=1, heads=2, width=16, mels=80, vocab=256 + len(SPECIAL) + 1501, positions=64, source=1500)


def read(path):
    """The tensors of a CTranslate2 file by name."""
    data, at, found = open(path, 'rb').read(), 0, {}

    def take(form):
        nonlocal at
        values = struct.unpack_from('<' + form, data, at)
        at += struct.calcsize('<' + form)
        return values[0] if len(values) == 1 else values

    def text():
        nonlocal at
        size = take('H')
        at += size
        return data[at - size:at - 1].decode()

    take('I'), text(), take('I')
    for _ in range(take('I')):
        name, rank = text(), take('B')
        shape = [take('I') for _ in range(rank)]
        kind, size = take('B'), take('I')
        dtype = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}[kind]
        found[name] = np.frombuffer(data, dtype, size // dtype().itemsize, at).reshape(shape)
        at += size
    for _ in range(take('I')):
        alias, target = text(), text()
        found[alias] = found[target]
    return {name: np.asarray(value, np.float32) if value.dtype == np.float16 else value
            for name, value in found.items()}


def random_weights(layers, heads, width, mels, vocab, positions, source):
    rng, w = np.random.default_rng(7), {}

    def put(name, *shape, scale=0.2):
        w[name] = rng.normal(0, scale, shape).astype(np.float32)
    for side, length in (('encoder', source), ('decoder', positions)):
        put(f'{side}/position_encodings/encodings', length, width)
        for i in range(layers):
            at = f'{side}/layer_{i}'
            blocks = [('self_attention', (3, 1))] + ([('attention', (1, 2, 1))] if side == 'decoder' else [])
            for name, parts in blocks:
                for k, n in enumerate(parts):
                    put(f'{at}/{name}/linear_{k}/weight', n * width, width)
                    put(f'{at}/{name}/linear_{k}/bias', n * width)
            put(f'{at}/ffn/linear_0/weight', 4 * width, width), put(f'{at}/ffn/linear_0/bias', 4 * width)
            put(f'{at}/ffn/linear_1/weight', width, 4 * width), put(f'{at}/ffn/linear_1/bias', width)
            for norm in [name for name, _ in blocks] + ['ffn']:
                w[f'{at}/{norm}/layer_norm/gamma'] = np.ones(width, np.float32)
                w[f'{at}/{norm}/layer_norm/beta'] = np.zeros(width, np.float32)
        w[f'{side}/layer_norm/gamma'], w[f'{side}/layer_norm/beta'] = np.ones(width, np.float32), np.zeros(
            width, np.float32)
    for k, size in ((1, mels), (2, width)):
        put(f'encoder/conv{k}/weight', width, size, 3), put(f'encoder/conv{k}/bias', width)
    put('decoder/embeddings/weight', vocab, width, scale=1)
    return w


class Graph:
    """Nodes of one graph; weights go to the list that all graphs of a file share."""

    def __init__(self, weights, shared, prefix):
        self.w, self.shared, self.prefix, self.nodes, self.count = weights, shared, prefix, [], 0

    def add(self, op, *inputs, out=None, **attributes):
        self.count += 1
        out = out or f'{self.prefix}{op}_{self.count}_output_0'
        self.nodes.append(h.make_node(op, list(inputs), [out], f'/{out}', **attributes))
        return out

    def const(self, name, value):
        if name not in self.shared:
            self.shared[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def ints(self, *values):
        return self.const('ints_' + '_'.join(map(str, values)), np.array(values, np.int64))

    def linear(self, x, name, part=slice(None)):
        weight, bias = self.w[f'{name}/weight'][part], self.w[f'{name}/bias'][part]
        key = f'{name}/{part.start}' if part.start is not None else name
        product = self.add('MatMul', x, self.const(f'{key}/w', weight.T))
        return self.add('Add', self.const(f'{key}/b', bias), product)

    def norm(self, x, name):
        return self.add('LayerNormalization', x, self.const(f'{name}/g', self.w[f'{name}/gamma']),
                        self.const(f'{name}/be', self.w[f'{name}/beta']), axis=-1, epsilon=1e-5)

    def gelu(self, x):
        half = self.add('Erf', self.add('Div', x, self.const('sqrt2', np.float32(2 ** 0.5))))
        sum_ = self.add('Add', half, self.const('one', np.float32(1)))
        return self.add('Mul', self.add('Mul', x, sum_), self.const('half', np.float32(0.5)))

    def heads(self, x, heads, size, out=None):
        split = self.add('Reshape', x, self.ints(0, -1, heads, size))
        return self.add('Transpose', split, perm=[0, 2, 1, 3], out=out)

    def attend(self, q, k, v, width, mask=None):
        """Attention of [B, H, T, D] tensors; the result is [B, T, H x D]."""
        scores = self.add('MatMul', q, self.add('Transpose', k, perm=[0, 1, 3, 2]))
        if mask is not None:
            scores = self.add('Add', scores, mask)
        mixed = self.add('MatMul', self.add('Softmax', scores, axis=-1), v)
        return self.add('Reshape', self.add('Transpose', mixed, perm=[0, 2, 1, 3]), self.ints(0, -1, width))

    def query(self, x, name, width, heads, part=slice(None)):
        scaled = self.add('Mul', self.linear(x, name, part),
                          self.const('scale', np.float32((width // heads) ** -0.5)))
        return self.heads(scaled, heads, width // heads)

    def ffn(self, x, at):
        inner = self.gelu(self.linear(self.norm(x, f'{at}/ffn/layer_norm'), f'{at}/ffn/linear_0'))
        return self.add('Add', x, self.linear(inner, f'{at}/ffn/linear_1'))


def info(name, kind, *dims):
    return h.make_tensor_value_info(name, kind, dims)


def save(graph, path):
    model = h.make_model(graph, opset_imports=[h.make_opsetid('', 17)], ir_version=8, producer_name='pytorch')
    onnx.checker.check_model(model)
    onnx.save(model, path)
    quantize_dynamic(path, path.replace('.onnx', '_quantized.onnx'), weight_type=QuantType.QUInt8, per_channel=True,
                     op_types_to_quantize=['MatMul', 'Gather'], extra_options={'EnableSubgraph': True})


def encoder(w, c, path):
    shared, width, heads = {}, c['width'], c['heads']
    g = Graph(w, shared, '')
    x = 'input_features'
    for k in (1, 2):
        x = g.gelu(g.add('Conv', x, g.const(f'conv{k}.weight', w[f'encoder/conv{k}/weight']),
                         g.const(f'conv{k}.bias', w[f'encoder/conv{k}/bias']), kernel_shape=[3],
                         pads=[1, 1], strides=[k]))
    x = g.add('Add', g.add('Transpose', x, perm=[0, 2, 1]),
              g.const('embed_positions.weight', w['encoder/position_encodings/encodings']))
    for i in range(c['layers']):
        at = f'encoder/layer_{i}'
        a, name = g.norm(x, f'{at}/self_attention/layer_norm'), f'{at}/self_attention/linear_0'
        q = g.query(a, name, width, heads, slice(0, width))
        k = g.heads(g.linear(a, name, slice(width, 2 * width)), heads, width // heads)
        v = g.heads(g.linear(a, name, slice(2 * width, 3 * width)), heads, width // heads)
        x = g.add('Add', x, g.linear(g.attend(q, k, v, width), f'{at}/self_attention/linear_1'))
        x = g.ffn(x, at)
    x = g.norm(x, 'encoder/layer_norm')
    g.nodes[-1].output[0] = 'last_hidden_state'
    save(h.make_graph(g.nodes, 'main_graph',
                      [info('input_features', P.FLOAT, 'batch_size', c['mels'], 'encoder_sequence_length')],
                      [info('last_hidden_state', P.FLOAT, 'batch_size', 'encoder_sequence_length', width)],
                      list(shared.values())), path)


def branch(w, c, shared, cached):
    """One branch of the decoder; the If maps its outputs by position."""
    width, heads, size = c['width'], c['heads'], c['width'] // c['heads']
    g, outputs = Graph(w, shared, 'with_past_' if cached else 'no_past_'), []
    length = g.add('Slice', g.add('Shape', 'input_ids'), g.ints(1), g.ints(2))
    start, mask = g.ints(0), None
    if cached:
        start = g.add('Slice', g.add('Shape', 'past_key_values.0.decoder.key'), g.ints(2), g.ints(3))
    else:
        square = g.add('ConstantOfShape', g.add('Concat', length, length, axis=0),
                       value=h.make_tensor('low', P.FLOAT, [1], [-1e9]))
        mask = g.add('Trilu', square, g.const('diagonal', np.int64(1)), upper=1)
    positions = g.add('Slice', g.const('decoder.positions', w['decoder/position_encodings/encodings']), start,
                      g.add('Add', start, length), g.ints(0))
    embedding = g.const('embed_tokens.weight', w['decoder/embeddings/weight'])
    x = g.add('Add', g.add('Gather', embedding, 'input_ids', axis=0), positions)
    for i in range(c['layers']):
        at, past = f'decoder/layer_{i}', f'past_key_values.{i}'
        a, name = g.norm(x, f'{at}/self_attention/layer_norm'), f'{at}/self_attention/linear_0'
        q = g.query(a, name, width, heads, slice(0, width))
        for kind, n in (('key', 1), ('value', 2)):
            new = g.heads(g.linear(a, name, slice(n * width, (n + 1) * width)), heads, size)
            out = f'{g.prefix}present.{i}.decoder.{kind}'
            outputs.append(g.add('Concat', f'{past}.decoder.{kind}', new, axis=-2, out=out) if cached
                           else g.add('Identity', new, out=out))
        mixed = g.attend(q, *outputs[-2:], width, mask)
        x = g.add('Add', x, g.linear(mixed, f'{at}/self_attention/linear_1'))
        a, name = g.norm(x, f'{at}/attention/layer_norm'), f'{at}/attention/linear_1'
        q, cross = g.query(a, f'{at}/attention/linear_0', width, heads), []
        for kind, n in (('key', 0), ('value', 1)):
            out = f'{g.prefix}present.{i}.encoder.{kind}'
            if cached:
                # Optimum's merge gives this branch empty constants; a caller keeps those of the first step.
                empty = h.make_tensor(out, P.FLOAT, [0, heads, 1, size], [])
                g.add('Constant', out=out, value=empty)
                cross.append(f'{past}.encoder.{kind}')
            else:
                cross.append(g.heads(g.linear('encoder_hidden_states', name, slice(n * width, (n + 1) * width)),
                                     heads, size, out=out))
            outputs.append(out)
        x = g.add('Add', x, g.linear(g.attend(q, *cross, width), f'{at}/attention/linear_2'))
        x = g.ffn(x, at)
    x = g.norm(x, 'decoder/layer_norm')
    logits = g.add('MatMul', x, g.const('lm_head.weight', w['decoder/embeddings/weight'].T),
                   out=f'{g.prefix}logits')
    return h.make_graph(g.nodes, f'{g.prefix}branch', [],
                        [info(logits, P.FLOAT, 'batch_size', 'decoder_sequence_length', c['vocab'])] +
                        [info(name, P.FLOAT, None, heads, None, size) for name in outputs])


def decoder(w, c, path):
    shared, size = {}, c['width'] // c['heads']
    cached, plain = branch(w, c, shared, True), branch(w, c, shared, False)
    names = [f'{i}.{side}.{kind}' for i in range(c['layers']) for side in ('decoder', 'encoder')
             for kind in ('key', 'value')]
    outputs = [info('logits', P.FLOAT, 'batch_size', 'decoder_sequence_length', c['vocab'])] + [
        info(f'present.{name}', P.FLOAT, 'batch_size', c['heads'], None, size) for name in names]
    inputs = [info('input_ids', P.INT64, 'batch_size', 'decoder_sequence_length'),
              info('encoder_hidden_states', P.FLOAT, 'batch_size', 'encoder_sequence_length', c['width'])] + [
        info(f'past_key_values.{name}', P.FLOAT, 'batch_size', c['heads'],
             'past_decoder_sequence_length' if '.decoder.' in name else 'encoder_sequence_length_out', size)
        for name in names] + [info('use_cache_branch', P.BOOL, 1)]
    node = h.make_node('If', ['use_cache_branch'], [o.name for o in outputs], 'optimum::if',
                       then_branch=cached, else_branch=plain)
    save(h.make_graph([node], 'merged', inputs, outputs, list(shared.values())), path)


def main(out, folder=None):
    os.makedirs(f'{out}/onnx', exist_ok=True)
    w = random_weights(**TINY) if folder is None else read(f'{folder}/model.bin')
    vocab, width = w['decoder/embeddings/weight'].shape
    layers = sum(f'encoder/layer_{i}/ffn/linear_0/weight' in w for i in range(99))
    c = dict(layers=layers, heads=TINY['heads'] if folder is None else width // 64, width=width, vocab=vocab,
             mels=w['encoder/conv1/weight'].shape[1])
    encoder(w, c, f'{out}/onnx/encoder_model.onnx')
    decoder(w, c, f'{out}/onnx/decoder_model_merged.onnx')
    given = {} if folder is None else json.load(open(f'{folder}/config.json'))
    positions = len(w['decoder/position_encodings/encodings'])
    config = dict(model_type='whisper', d_model=width, encoder_layers=layers, decoder_layers=layers,
                  encoder_attention_heads=c['heads'], decoder_attention_heads=c['heads'], vocab_size=vocab,
                  num_mel_bins=c['mels'], max_source_positions=1500, max_target_positions=positions)
    generation = dict(alignment_heads=given.get('alignment_heads', [[0, 0]]), is_multilingual=True,
                      suppress_tokens=given.get('suppress_ids', []),
                      begin_suppress_tokens=given.get('suppress_ids_begin', []))
    if folder is None:
        shown = [b for b in range(256) if 32 < b < 127 or b > 160 and b != 173]
        chars = {b: chr(b) for b in shown} | {
            b: chr(256 + i) for i, b in enumerate(sorted(set(range(256)) - set(shown)))}
        level = dict(type='ByteLevel', add_prefix_space=False, trim_offsets=True, use_regex=True)
        json.dump(dict(
            version='1.0', truncation=None, padding=None, normalizer=None, pre_tokenizer=level, decoder=level,
            post_processor=None, model=dict(type='BPE', vocab={chars[b]: b for b in range(256)}, merges=[]),
            added_tokens=[dict(id=256 + i, content=f'<|{name}|>', special=True, single_word=False, lstrip=False,
                               rstrip=False, normalized=False) for i, name in enumerate(SPECIAL)]
        ), open(f'{out}/tokenizer.json', 'w'))
    else:
        shutil.copy(f'{folder}/tokenizer.json', f'{out}/tokenizer.json')
    tokens = {t['content']: t['id'] for t in json.load(open(f'{out}/tokenizer.json'))['added_tokens']}
    generation |= dict(no_timestamps_token_id=tokens['<|notimestamps|>'],
                       lang_to_id={t: i for t, i in tokens.items() if re.fullmatch(r'<\|[a-z]{2,3}\|>', t)})
    for name, content in (('config', config), ('generation_config', generation),
                          ('preprocessor_config', dict(feature_size=c['mels'], sampling_rate=16000))):
        json.dump(content, open(f'{out}/{name}.json', 'w'))


main(sys.argv[1], *sys.argv[2:3])
