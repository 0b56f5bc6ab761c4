"""Byte-level BPE with GPT-2's pre-tokenisation: train, encode, decode, write tokenizer.json.

usage: bpe.py CORPUS.jsonl VOCABULARY OUT_DIR
"""
import json
import os
import re
import sys
from collections import Counter, defaultdict

SPECIAL = ['<|pad|>', '<|end|>', '<|system|>', '<|user|>', '<|assistant|>']
WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")
TEMPLATE = ("{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")


def byte_letters():
    """The printable letter of each byte, as in GPT-2."""
    known = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    rest = [b for b in range(256) if b not in known]
    return {**{b: chr(b) for b in known}, **{b: chr(256 + n) for n, b in enumerate(rest)}}


LETTER = byte_letters()
BYTE = {letter: byte for byte, letter in LETTER.items()}


def pieces(text):
    return [''.join(LETTER[b] for b in word.encode()) for word in WORDS.findall(text)]


def learn(texts, size):
    """Merges the most frequent pair until the vocabulary has the size; ties go to the later pair."""
    counted = Counter(word for text in texts for word in pieces(text))
    words = [(list(word), count) for word, count in counted.items()]
    pairs, where = Counter(), defaultdict(set)
    for k, (word, count) in enumerate(words):
        for pair in zip(word, word[1:]):
            pairs[pair] += count
            where[pair].add(k)
    base = sorted(LETTER.values())
    merges = []
    while len(SPECIAL) + len(base) + len(merges) < size:
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        if pairs[best] < 2:
            break
        merges.append(best)
        for k in list(where[best]):
            word, count = words[k]
            for pair in zip(word, word[1:]):
                pairs[pair] -= count
            merged = merge(word, best)
            words[k] = (merged, count)
            for pair in zip(merged, merged[1:]):
                pairs[pair] += count
                where[pair].add(k)
        del pairs[best]
    tokens = SPECIAL + base + [a + b for a, b in merges]
    return {token: number for number, token in enumerate(tokens)}, merges


def merge(word, pair):
    out, i = [], 0
    while i < len(word):
        if i + 1 < len(word) and (word[i], word[i + 1]) == pair:
            out.append(word[i] + word[i + 1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return out


class Tokenizer:
    """Reads tokenizer.json; the same ids as the library that reads it elsewhere."""

    def __init__(self, path):
        with open(path) as f:
            model = json.load(f)['model']
        self.number = model['vocab']
        self.rank = {tuple(pair.split(' ')): i for i, pair in enumerate(model['merges'])}
        self.token = {i: token for token, i in self.number.items()}
        self.seen = {}

    def word(self, word):
        if word not in self.seen:
            parts = list(word)
            while len(parts) > 1:
                ranks = [self.rank.get(pair, 1e9) for pair in zip(parts, parts[1:])]
                at = min(range(len(ranks)), key=ranks.__getitem__)
                if ranks[at] == 1e9:
                    break
                parts[at:at + 2] = [parts[at] + parts[at + 1]]
            self.seen[word] = [self.number[part] for part in parts]
        return self.seen[word]

    def encode(self, text):
        return [number for word in pieces(text) for number in self.word(word)]

    def decode(self, numbers):
        letters = ''.join(self.token[n] for n in numbers if n >= len(SPECIAL))
        return bytes(BYTE[letter] for letter in letters).decode('utf8', 'replace')

    def chat(self, messages, ask=False):
        """Ids of a dialogue, and for each whether it is the assistant's (its end included)."""
        ids, own = [], []
        for role, text in messages:
            encoded = self.encode(text)
            ids += [self.number[f'<|{role}|>'], *encoded, 1]
            own += [0] + [int(role == 'assistant')] * (len(encoded) + 1)
        if ask:
            ids.append(self.number['<|assistant|>'])
            own.append(0)
        return ids, own


def save(numbers, merges, out):
    def special(token):
        return dict(id=numbers[token], content=token, single_word=False, lstrip=False, rstrip=False,
                    normalized=False, special=True)

    os.makedirs(out, exist_ok=True)
    bytes_ = dict(type='ByteLevel', add_prefix_space=False, trim_offsets=True, use_regex=True)
    model = dict(type='BPE', dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                 fuse_unk=False, byte_fallback=False, vocab=numbers, merges=[f'{a} {b}' for a, b in merges])
    tokenizer = dict(version='1.0', truncation=None, padding=None, added_tokens=[special(t) for t in SPECIAL],
                     normalizer=None, pre_tokenizer=bytes_, post_processor=None, decoder=bytes_, model=model)
    config = dict(tokenizer_class='PreTrainedTokenizerFast', model_max_length=512, pad_token='<|pad|>',
                  eos_token='<|end|>', bos_token=None, unk_token=None, clean_up_tokenization_spaces=False,
                  add_bos_token=False, chat_template=TEMPLATE)
    for name, value, indent in [('tokenizer', tokenizer, 0), ('tokenizer_config', config, 1),
                                ('special_tokens_map', dict(pad_token='<|pad|>', eos_token='<|end|>'), 1)]:
        with open(f'{out}/{name}.json', 'w') as f:
            json.dump(value, f, ensure_ascii=False, indent=indent)


def main():
    corpus, size, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with open(corpus) as f:
        texts = [text for line in f for _, text in json.loads(line)]
    save(*learn(texts, size), out)
    tokenizer = Tokenizer(f'{out}/tokenizer.json')
    count = sum(len(tokenizer.encode(text)) for text in texts)
    print('characters per token', round(sum(map(len, texts)) / count, 2))
    assert all(tokenizer.decode(tokenizer.encode(text)) == text for text in texts[:2000])


if __name__ == '__main__':
    main()
