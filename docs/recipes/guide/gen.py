"""Writes dialogues made from the sheets, by seed.

usage: gen.py SHEETS.json WORDS.yaml-as-lines TEACHER.json COUNT SEED OUT.jsonl

SHEETS.json comes from export-sheets.mjs, TEACHER.json from teacher.mjs. Each line of the output is a list of
[role, text]. One answer per sheet; no answer takes a word from its question.

Most questions are sentences of the patterns. Two in five are bags: some of the words of one to three patterns of
a sheet, rare ones first, with words in between that say nothing. What the search would take for another sheet gets that
one's answer, and what it could not tell is left out. They teach that single words point to a sheet, in
whatever sentence they stand; from sentences alone a model of this size learns the sentences.
"""
import json
import math
import random
import re
import sys
from collections import Counter

KINDS = ('error', 'health', 'event', 'exit', 'authority')
ROLE = {'act': 4, 'term': 2, 'err': 3, 'free': 5, 'talk': 5}
MODELS = ('acme/chat llama-3b tiny-chat mistral-7b qwen-1b phi-mini gemma-2b smol-135m voice-en story-15m my-model '
          'coder-3b gpt-nano deepseek granite the-big-one').split()
NAMES = 'Anna Ben Clara David Emma Felix Greta Hugo Ida Jonas Karla Leo Mia Nina Otto Paul Rosa Sam Tom Vera Yuki Raj'.split()
SYSTEM = ['You are a helpful assistant.', 'You are the guide of svc.', 'Answer briefly.',
          'You are a friendly assistant. Be concise.', 'You are a helpful AI.']
SMALL_WORDS = {'the', 'a', 'an', 'do', 'i', 'is', 'my', 'to', 'of', 'it'}
# Words without a subject, inserted between the words of a bag.
GLUE = ('the the a a my my it it i i to to of of is is do does can on in for with that this and if when how what why me we '
        'you not some any there should would will be are from at as so but or has have get one our which').split()
BAG_SHARE, TEXT_SHARE = .4, .05
# Leads, as in search.ts: above the first a bag is the sheet's own, above the second another sheet's.
OWN_LEAD, OTHER_LEAD = .3, .9
ONSET = 'b c d f g h j k l m n p r s t v w z br cr dr fr gr kr pr tr st sk sl fl gl pl th sh ch'.split()
VOWEL = 'a e i o u a e i o ai ea ie ou ei'.split()
CODA = ['', '', '', 'n', 'r', 'l', 's', 't', 'm', 'k', 'nd', 'x']


class Source:
    """The parts of a question, with one random generator."""

    def __init__(self, data, words, teacher, seed):
        self.r = random.Random(seed)
        self.teacher = teacher
        self.frames = data['frames']
        self.synonyms = {}
        for line in words:
            group = line[2:].split()
            for word in group:
                if '+' not in word:
                    self.synonyms[word] = [other.replace('+', ' ') for other in group if other != word]
        self.sheets, self.talk = [], []
        self.decline = None
        for sheet in data['sheets']:
            kind = sheet['id'].split(':')[0] if ':' in sheet['id'] else ''
            if sheet['id'] == 'decline':
                self.decline = sheet
            elif sheet['id'].startswith('small.'):
                self.talk.append(sheet)
            elif kind == '' or kind in KINDS:
                self.sheets.append(sheet)
        self.by_id = {sheet['id']: sheet for sheet in data['sheets']}
        self.weights = [self.weight(sheet) for sheet in self.sheets]
        self.rarity = self.rarities(data['sheets'])
        self.anything = [word for word in self.rarity if word.isalpha()]

    @staticmethod
    def weight(sheet):
        """How often a sheet is used; a code is learned from few examples."""
        if ':' in sheet['id']:
            return .45 if any(sheet['asked'].values()) else .2
        return 1.5

    @staticmethod
    def rarities(sheets):
        """Information of a word: the logarithm of the share of sheets that have it."""
        asked = [{word for list_ in sheet['asked'].values() for text in list_ for word in re.findall(r'[a-z0-9_.-]+', text)}
                 for sheet in sheets]
        asked = [words for words in asked if words]
        counts = Counter(word for words in asked for word in words)
        return {word: math.log(len(asked) / count) + .05 for word, count in counts.items()}

    def pick(self, items):
        return items[self.r.randrange(len(items))]

    def pseudo(self, low=2, high=3):
        return ''.join(self.pick(ONSET) + self.pick(VOWEL) + self.pick(CODA)
                       for _ in range(self.r.randint(low, high)))

    def number(self):
        return str(self.pick([self.r.randint(1, 99), self.r.randint(100, 999), self.r.randint(1000, 2030)]))

    def expand(self, pattern):
        """One sentence of a pattern: {a|b} is one of them, [x] may be left out."""
        out, i = [], 0
        while i < len(pattern):
            char = pattern[i]
            if char not in '{[':
                out.append(char)
                i += 1
                continue
            depth, j, parts, start = 1, i + 1, [], i + 1
            while True:
                if pattern[j] in '{[':
                    depth += 1
                elif pattern[j] in '}]':
                    depth -= 1
                    if depth == 0:
                        break
                elif pattern[j] == '|' and depth == 1:
                    parts.append(pattern[start:j])
                    start = j + 1
                j += 1
            parts.append(pattern[start:j])
            if char == '{':
                out.append(self.expand(self.pick(parts)))
            elif self.r.random() < .5:
                out.append(self.expand(pattern[i + 1:j]))
            i = j + 1
        return re.sub(r' +', ' ', ''.join(out)).strip()

    def fill(self, text, words):
        """Substitutes <M>, <thing> and so on."""
        def one(match):
            key = match.group(1)
            if key in words and self.r.random() < .85:
                return self.pick(words[key])
            if key in ('M',):
                return self.pick(MODELS) if self.r.random() < .6 else self.pseudo(1, 3) + self.pick(['', '-3b', '-mini'])
            if key == 'N':
                return self.pick(NAMES) if self.r.random() < .4 else self.pseudo(1, 3).capitalize()
            if key == 'P':
                return str(self.pick([8080, 3000, 9000, 5000, 8000, self.r.randint(1024, 65000)]))
            if key == 'K':
                return self.pick(['two', 'three', 'four', str(self.r.randint(2, 9))])
            if key == 'num':
                return self.number()
            return self.pseudo()
        return re.sub(r'<(\w+)>', one, text)

    def code_term(self, sheet):
        """A declared word as people write it."""
        word = sheet['code']
        if sheet['id'].startswith('exit:'):
            return self.pick([f'exit code {word}', f'exit status {word}', f'code {word} from svc', f'exit {word}'])
        forms = [word, word, word, word.lower(), re.sub(r'(?<=[a-z])(?=[A-Z])|_', ' ', word).lower()]
        if sheet['id'].startswith('authority:'):
            forms = [f'the authority {word}', f'authority {word}', f'{word} as an authority']
        return self.pick(forms)

    def synonym(self, question, chance=.25):
        words = question.split(' ')
        return ' '.join(self.pick(self.synonyms[word]) if word in self.synonyms and self.r.random() < chance else word
                        for word in words)

    def bag(self, sheet):
        """Some words of one to three patterns of the sheet, sometimes of its title and answer, in random order."""
        if ('code' not in sheet or self.r.random() < .5) and self.r.random() < TEXT_SHARE and sheet in self.sheets:
            text = re.sub(r'[^\w\s./-]', '', f"{sheet['title']} {sheet['answer']}".lower())
        else:
            patterns = [pattern for list_ in sheet['asked'].values() for pattern in list_]
            texts = [self.expand(self.pick(patterns)) for _ in range(self.pick((1, 2, 2, 3)))]
            text = self.fill(self.synonym(' '.join(texts)), sheet.get('words', {}))
        words = list(dict.fromkeys(word.strip('?,!') for word in text.split()))
        count = self.r.randint(2, 7)
        chance = self.r.random
        ranked = sorted(range(len(words)), reverse=True,
                        key=lambda i: chance() ** (1 / max(self.rarity.get(words[i].lower(), 2), .05)))
        kept = ranked[:count] if chance() < .5 else sorted(ranked[:count])
        out = [words[i] for i in kept]
        if chance() < .25:
            out.insert(self.r.randrange(len(out) + 1), self.pick(self.anything) if chance() < .6 else self.pseudo())
        if chance() < .6:
            glued = []
            for word in out:
                glued += [self.pick(GLUE) for _ in range(self.pick((0, 1, 1, 2)))] + [word]
            out = glued
        text = ' '.join(out)
        if chance() < .4:
            field = self.pick(('act', 'act', 'term', 'err'))
            text = self.expand(self.pick(self.frames[field])).replace(f'<{field}>', text)
        return text

    def taught(self, text):
        """The id of the best sheet for these words, and its lead over the next one."""
        scores = {}
        for term in {self.teacher['terms'].get(word) for word in re.findall(r"[a-z0-9_]+(?:[-.:/'@][a-z0-9_]+)*", text.lower())}:
            for id_, weight in self.teacher['weights'].get(term, {}).items():
                scores[id_] = scores.get(id_, -1.5 if ':' in id_ else 0.) + weight
        if not scores:
            return None, 0.
        first = max(scores, key=scores.get)
        rest = [score for id_, score in scores.items() if id_ != first]
        return first, scores[first] - max(rest, default=0.)

    def sure_bag(self, sheet):
        """An unambiguous bag and its sheet."""
        for _ in range(6):
            text = self.bag(sheet)
            first, lead = self.taught(text)
            if first == sheet['id'] and lead >= OWN_LEAD:
                return text, sheet
            if first in self.by_id and lead >= OTHER_LEAD and self.r.random() < .5:
                return text, self.by_id[first]
        return None

    def asked_for(self, sheet):
        """A question, and the sheet that answers it."""
        bag = self.sure_bag(sheet) if any(sheet['asked'].values()) and self.r.random() < BAG_SHARE else None
        return bag or (self.question(sheet), sheet)

    def question(self, sheet):
        asked = sheet['asked']
        fields = [field for field in asked for _ in range(ROLE[field])]
        if 'code' in sheet and (not fields or self.r.random() < .45):
            field = 'err' if sheet['id'].split(':')[0] in ('error', 'health', 'event', 'exit') and self.r.random() < .6 \
                else 'term'
            text = self.code_term(sheet)
        else:
            field = self.pick(fields)
            text = self.expand(self.pick(asked[field]))
        text = self.fill(self.synonym(text), sheet.get('words', {}))
        if field in self.frames and field in ('act', 'term', 'err'):
            frame = self.expand(self.pick(self.frames[field]))
            text = frame.replace(f'<{field}>', text)
        return text

    def noise(self, q):
        r = self.r.random
        if r() < .16:
            q = self.pick(self.frames['begin']) + ' ' + q
        if r() < .12:
            end = self.pick(self.frames['end'])
            q += end if end.startswith(',') else ' ' + end
        words = q.split(' ')
        if r() < .10:
            words = [w for w in words if w not in SMALL_WORDS or r() < .4] or words
        if r() < .06 and len(words) > 2:
            self.r.shuffle(words)
        if r() < .08 and len(words) > 3:
            words = [w for w in words if r() < .75] or words
        for _ in range(self.pick((0, 0, 0, 0, 1, 2))):
            k = self.r.randrange(len(words))
            words[k] = self.typo(words[k])
        if r() < .08:
            words.insert(self.r.randrange(len(words) + 1), self.pseudo())
        q = ' '.join(words)
        how = r()
        if how < .35:
            q = q[:1].upper() + q[1:]
        elif how < .37:
            q = q.upper()
        if r() < .42:
            q = q.rstrip('?.!') + self.pick(['?', '?', '?', '?', '.', '!', '??', ' ?', '...'])
        if r() < .3:
            q = re.sub(r'\bi\b', 'I', q)
        return q

    def typo(self, word):
        if len(word) < 4 or not word.isalpha() or not word.islower():
            return word
        at = self.r.randrange(1, len(word) - 1)
        return self.pick([
            word[:at] + word[at + 1:], word[:at] + word[at + 1] + word[at] + word[at + 2:],
            word[:at] + word[at] + word[at:],
            word[:at] + self.pick('abcdefghijklmnopqrstuvwxyz') + word[at + 1:]])

    def turn(self):
        chance = self.r.random()
        if chance < .74:
            sheet = self.r.choices(self.sheets, self.weights)[0]
        elif chance < .93:
            sheet = self.decline
        else:
            sheet = self.pick(self.talk)
        question, sheet = self.asked_for(sheet)
        return [['user', self.noise(question)], ['assistant', sheet['answer'].replace('\n', ' ')]]

    def dialogue(self):
        messages = [['system', self.pick(SYSTEM)]] if self.r.random() < .15 else []
        messages += self.turn()
        if self.r.random() < .05:
            messages += self.turn()
        return messages


def main():
    sheets, words, teacher, count, seed, out = sys.argv[1:7]
    with open(sheets) as f:
        data = json.load(f)
    with open(words) as f:
        lines = [line.strip() for line in f if line.startswith('- ')]
    with open(teacher) as f:
        source = Source(data, lines, json.load(f), int(seed))
    with open(out, 'w') as f:
        for _ in range(int(count)):
            f.write(json.dumps(source.dialogue(), ensure_ascii=False) + '\n')


if __name__ == '__main__':
    main()
