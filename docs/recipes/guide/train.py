"""Trains the guide on one thread.

usage: train.py DATA.jsonl TOKENIZER.json OUT.pt --steps N [--until HH:MM] [--rate R] [--batch TOKENS]
    [--resume CHECKPOINT.pt] [--dev QUESTIONS.tsv]

The schedule of the learning rate goes over N steps; with --until (UTC) over the wall clock instead, and the log says
how many steps that were. Data, order and noise come from fixed seeds, so two runs of N steps on one machine and one
torch are alike. OUT.pt is written every five minutes and at the end.

What is hard is to tell from a question which answer it wants; the answers themselves are soon known by heart. So

- questions get noise (tokens dropped or replaced), so that no single one decides;
- most answers are cut after their first tokens, and the first tokens count more;
- a second output, which is thrown away in the end, names the answer from what the last layer gets at the last token
  before it. The last layer has only to spell that answer out;
- every other batch is of questions alone, for that output: more of them are seen in the same time.
"""
import argparse
import datetime
import json
import math
import random
import time
from array import array

import torch
import torch.nn.functional as F

from bpe import Tokenizer
from model import LM
from muon import Muon

LONGEST = 256
# Share of cut answers, by the progress of the training; the first tokens decide.
SHORT_SHARE, LAST_SHARE, LAST_FROM, SHORT_TOKENS = .75, .5, .85, 8
# Share of the batches that have no answers, until LAST_FROM.
BARE_SHARE = .25
FIRST_TOKENS, FIRST_WEIGHT = 6, 4.
HELD_BACK = 300
# Dialogues that are sorted by length together; either all or none of them have answers.
CHUNK = 1024
SAVE_SECONDS = 300


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument('data')
    p.add_argument('tokenizer')
    p.add_argument('out')
    p.add_argument('--steps', type=int, default=20000)
    p.add_argument('--until')
    p.add_argument('--rate', type=float, default=2e-3)
    p.add_argument('--batch', type=int, default=4096, help='tokens of a step')
    p.add_argument('--resume')
    p.add_argument('--dev', help='questions and the answers that they want, to look at on the way')
    return p.parse_args()


def seconds_until(clock):
    now = datetime.datetime.utcnow()
    hour, minute = map(int, clock.split(':'))
    end = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return (end - now).total_seconds() % 86400


class Data:
    """Dialogues as (ids, marks of the assistant's tokens, number of the last answer), in batches of about one length."""

    def __init__(self, path, tokenizer, batch_tokens):
        self.batch_tokens = batch_tokens
        self.all, self.answers = [], {}
        with open(path) as f:
            for line in f:
                messages = json.loads(line)
                ids, own = tokenizer.chat(messages)
                if len(ids) <= LONGEST:
                    label = self.answers.setdefault(messages[-1][1], len(self.answers))
                    self.all.append((array('h', ids), array('b', own), label))
        self.held, self.all = self.all[:HELD_BACK], self.all[HELD_BACK:]
        self.user = tokenizer.number['<|user|>']
        self.pool = [t for ids, own, _ in self.all[:4000] for t, mine in zip(ids, own) if t > 4 and not mine]

    def batches(self, shares):
        """Endless batches; `shares()` are the current shares of answers to cut and of batches without any."""
        owed = 0.
        while True:
            random.shuffle(self.all)
            for start in range(0, len(self.all), CHUNK):
                share, bare_share = shares()
                owed += bare_share
                bare = owed >= 1
                owed -= bare
                chunk = [self.corrupt(shorten(d, 0 if bare else SHORT_TOKENS) if bare or random.random() < share else d)
                         for d in self.all[start:start + CHUNK]]
                chunk.sort(key=lambda d: len(d[0]))
                ready, batch = [], []
                for d in chunk:
                    if batch and len(d[0]) * (len(batch) + 1) > self.batch_tokens:
                        ready.append(batch)
                        batch = []
                    batch.append(d)
                ready.append(batch)
                random.shuffle(ready)
                yield from ready

    def corrupt(self, dialogue):
        rate = random.choice((0, 0, 0, .06, .12))
        if rate == 0:
            return dialogue
        ids, own, label = dialogue
        role, out, out_own = 0, [], []
        for token, mine in zip(ids, own):
            if token < 5:
                role = token if token > 1 else role
            elif role == self.user and not mine and random.random() < rate:
                if random.random() < .5:
                    continue
                token = random.choice(self.pool)
            out.append(token)
            out_own.append(mine)
        return out, out_own, label


def last_answer(own):
    """Start of the last run of the assistant's tokens; the end without one."""
    start = len(own)
    while start > 0 and own[start - 1]:
        start -= 1
    return start


def shorten(dialogue, tokens):
    """Cuts the dialogue after so many tokens of its last answer."""
    ids, own, label = dialogue
    end = last_answer(own) + tokens
    return ids[:end], own[:end], label


def weights_of(own):
    """The weight of each token in the loss: the first ones of an answer count more."""
    out, run = [], 0
    for mine in own:
        run = run + 1 if mine else 0
        out.append(0. if run == 0 else FIRST_WEIGHT if run <= FIRST_TOKENS else 1.)
    return out


def losses(model, head, batch):
    """The loss of the tokens (0 without any), that of naming the answer, and the share of answers named right."""
    longest = max(len(ids) for ids, _, _ in batch)
    ids = torch.zeros(len(batch), longest, dtype=torch.long)
    weights = torch.zeros(len(batch), longest)
    before = []
    for row, (one, own, _) in enumerate(batch):
        ids[row, :len(one)] = torch.tensor(list(one))
        weights[row, :len(one)] = torch.tensor(weights_of(own))
        before.append(last_answer(own) - 1)
    bare = not any(batch[0][1][-1:])
    width = longest if bare else longest - 1
    probe = torch.tensor([row * width + at for row, at in enumerate(before)])
    if bare:
        inner, tokens = model(ids, probe=probe), torch.zeros(())
    else:
        weights = weights[:, 1:].reshape(-1)
        chosen = weights.nonzero()[:, 0]
        logits, inner = model(ids[:, :-1], chosen, probe=probe)
        each = F.cross_entropy(logits, ids[:, 1:].reshape(-1)[chosen], reduction='none')
        tokens = (each * weights[chosen]).sum() / weights[chosen].sum()
    labels = torch.tensor([label for _, _, label in batch])
    named = head(F.layer_norm(inner, inner.shape[-1:]))
    right = (named.argmax(-1) == labels).float().mean()
    return tokens, F.cross_entropy(named, labels), float(right)


@torch.no_grad()
def look(model, head, data, dev, tokenizer):
    """The loss on the held-out data, and the number of questions of DEV whose answer is named."""
    parts = [losses(model, head, data.held[s:s + 30]) for s in range(0, len(data.held), 30)]
    text = 'held back ' + ' '.join(f'{sum(float(p[i]) for p in parts) / len(parts):.4f}' for i in range(3))
    if not dev:
        return text
    right = 0
    for question, answers in dev:
        ids, _ = tokenizer.chat([('user', question)], True)
        inner = model(torch.tensor([ids]), probe=torch.tensor([len(ids) - 1]))
        right += int(head(F.layer_norm(inner, inner.shape[-1:])).argmax()) in answers
    return f'{text} dev {right} of {len(dev)}'


def read_dev(path, answers):
    """Lines of a question, a tab and the answers that are right, joined by tabs."""
    with open(path) as f:
        rows = [line.rstrip('\n').split('\t') for line in f]
    return [(row[0], {answers[text] for text in row[1:] if text in answers}) for row in rows]


def rate_at(share, step):
    """The factor of the learning rate: up in 60 steps, then down in a straight line."""
    return min(1, (step + 1) / 60) * (1 - .98 * share)


def head_for(data, model, resumed):
    """The output that names answers; weights of a checkpoint for the same answers are reused."""
    head = torch.nn.Linear(model.c.d, len(data.answers))
    known = resumed.get('answers', {})
    with torch.no_grad():
        for text, number in data.answers.items():
            if text in known:
                head.weight[number] = resumed['head']['weight'][known[text]]
                head.bias[number] = resumed['head']['bias'][known[text]]
    return head


def main():
    a = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    tokenizer = Tokenizer(a.tokenizer)
    data = Data(a.data, tokenizer, a.batch)
    model = LM()
    resumed = torch.load(a.resume) if a.resume else {}
    if resumed:
        model.load_state_dict(resumed['sd'])
    head = head_for(data, model, resumed)
    dev = read_dev(a.dev, data.answers) if a.dev else []
    print('dialogues', len(data.all), 'answers', len(data.answers), 'parameters',
          sum(p.numel() for p in model.parameters()), flush=True)
    optimizers = optimizers_for(model, head, a.rate)
    limit = seconds_until(a.until) if a.until else None
    begun = saved = time.time()
    step, seen, questions, mean, share = 0, 0, 0, None, 0.
    earlier = resumed.get('steps', 0)

    def save():
        torch.save(dict(cfg=dict(model.c), sd=model.state_dict(), steps=earlier + step, head=head.state_dict(),
                        answers=data.answers), a.out)

    batches = data.batches(lambda: (SHORT_SHARE, BARE_SHARE) if share < LAST_FROM else (LAST_SHARE, 0))
    while True:
        passed = time.time() - begun
        share = passed / limit if limit else step / a.steps
        if share >= 1:
            break
        factor = rate_at(share, step)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group['lr'] = group['peak'] * factor
            optimizer.zero_grad(set_to_none=True)
        batch = next(batches)
        tokens, named, right = losses(model, head, batch)
        (tokens + named).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        step += 1
        seen += sum(len(ids) for ids, _, _ in batch)
        questions += len(batch)
        now = (float(tokens), float(named), right)
        mean = now if mean is None else tuple(m if n == 0 else n if m == 0 else .98 * m + .02 * n
                                                  for m, n in zip(mean, now))
        if step % 50 == 0:
            print(f'{passed:.0f}s step {step} loss {mean[0]:.4f} naming {mean[1]:.4f} right {mean[2]:.3f} tokens {seen} '
                  f'dialogues {questions} tokens/s {seen / (time.time() - begun):.0f}', flush=True)
        if time.time() - saved > SAVE_SECONDS:
            saved = time.time()
            save()
            print(f'{look(model, head, data, dev, tokenizer)}, saved at step {step}', flush=True)
    save()
    print(f'end: steps {step} tokens {seen} dialogues {questions} {look(model, head, data, dev, tokenizer)}')


def optimizers_for(model, head, rate):
    """Muon for the matrices of the layers, Adam for the rest; `peak` is the highest learning rate of a group."""
    matrices = [p for p in model.ls.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if not any(p is m for m in matrices)]
    adam = torch.optim.AdamW([dict(params=[p for p in rest if p.dim() > 1], weight_decay=.05, peak=rate),
                              dict(params=[p for p in rest if p.dim() == 1], weight_decay=0., peak=rate),
                              dict(params=list(head.parameters()), weight_decay=.01, peak=2 * rate)],
                             lr=rate, betas=(.9, .98), eps=1e-8, foreach=False)
    return [adam, Muon(matrices, peak=3 * rate)]


if __name__ == '__main__':
    main()
