"""The training question nearest to each question of the judgement, by shared words (Jaccard).

usage: overlap.py DATA.jsonl QUESTIONS.tsv [SHOWN]
"""
import json
import re
import sys


def words(text):
    return frozenset(re.findall(r'[a-z0-9_]+', text.lower()))


def main():
    data, questions = sys.argv[1:3]
    shown = int(sys.argv[3]) if len(sys.argv) > 3 else 15
    with open(data) as f:
        train = {words(text): text for line in f for role, text in json.loads(line) if role == 'user'}
    rows = []
    with open(questions) as f:
        for line in f:
            question = line.split('\t')[0]
            own = words(question)
            best = max(train, key=lambda other: len(own & other) / len(own | other))
            rows.append((len(own & best) / len(own | best), question, train[best]))
    rows.sort(reverse=True)
    print(f'questions {len(rows)}, equal {sum(r[0] == 1 for r in rows)}, mean {sum(r[0] for r in rows) / len(rows):.2f}, '
          f'largest {rows[0][0]:.2f}, from {len(train)} different training questions')
    for score, question, other in rows[:shown]:
        print(f'{score:.2f}\t{question}\t{other}')


if __name__ == '__main__':
    main()
