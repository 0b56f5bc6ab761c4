"""Writes the tokenizer of a GGUF file as that of transformers: tokenizer.py FILE.gguf FOLDER."""
import json
import os
import struct
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

NUMBERS = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}
STRING, LIST = 8, 9
CONTROL = 3


def metadata(path):
    with open(path, 'rb') as file:
        def number(kind):
            return struct.unpack('<' + kind, file.read(struct.calcsize(kind)))[0]

        def value(kind):
            if kind == STRING:
                return file.read(number('Q')).decode()
            if kind == LIST:
                inner, count = number('I'), number('Q')
                return [value(inner) for _ in range(count)]
            return number(NUMBERS[kind])

        file.seek(16)
        return {value(STRING): value(number('I')) for _ in range(number('Q'))}


source, folder = sys.argv[1:]
found = metadata(source)
tokens, merges, types, end = (found[f'tokenizer.ggml.{name}']
                              for name in ('tokens', 'merges', 'token_type', 'eos_token_id'))
tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)},
                                 [tuple(merge.split(' ')) for merge in merges]))
# As llama.cpp splits texts for tokenizer.ggml.pre = smollm.
tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
    pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
tokenizer.decoder = decoders.ByteLevel()
tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)
                              for token, kind in zip(tokens, types) if kind == CONTROL])
os.makedirs(folder, exist_ok=True)
tokenizer.save(os.path.join(folder, 'tokenizer.json'))
with open(os.path.join(folder, 'tokenizer_config.json'), 'w') as file:
    json.dump({'tokenizer_class': 'PreTrainedTokenizerFast', 'eos_token': tokens[end]}, file)
with open(os.path.join(folder, 'config.json'), 'w') as file:
    json.dump({'model_type': 'llama'}, file)
