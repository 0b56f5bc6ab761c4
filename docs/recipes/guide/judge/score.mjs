// Judges the search and the model on questions.tsv and writes scores.md:
// node --import ./test/tools/typescript.mjs docs/recipes/guide/judge/score.mjs [search | model [FOLDER]]
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { readCard } from '../../../../plugins/runners/cards/card.ts'
import { declarations, sheets } from '../declarations.mjs'
import { guideSearch } from '../../../../plugins/chat/guide/index.ts'

const shipped = fileURLToPath(new URL('../../../../plugins/chat/guide/model', import.meta.url))
const [what = 'both', folder = shipped] = process.argv.slice(2)
const here = (name) => new URL(name, import.meta.url)
const questions = readFileSync(here('questions.tsv'), 'utf8').trim().split('\n').map((line) => {
  const [question, ids] = line.split('\t')
  return { question, ids: ids.split(' ') }
})
const isOutside = ({ ids }) => ids[0] === 'decline'
const count = (list, test) => `${list.filter(test).length} of ${list.length}`
const table = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n')

function section (title, intro, figures, wrong) {
  return `## ${title}\n\n${intro}\n\n${table(['What', 'Questions'], figures)}\n\nNot right:\n\n${wrong}\n`
}

function judgeSearch () {
  const search = guideSearch(declarations)
  const rows = questions.map((row) => {
    const found = search(row.question)
    const first = row.ids.includes(found.id)
    return { ...row, found, first, near: first || found.near.some(({ id }) => row.ids.includes(id)) }
  })
  const inside = rows.filter((row) => !isOutside(row))
  const outside = rows.filter(isOutside)
  return section('The search', 'The sheet that `svc help` answers with:', [
    ['right, all questions', count(rows, ({ first }) => first)],
    ['about svc: the right sheet is first', count(inside, ({ first }) => first)],
    ['about svc: first and sure', count(inside, ({ first, found }) => first && found.sure)],
    ['about svc: among the three that are named', count(inside, ({ near }) => near)],
    ['about svc: wrong and sure of it', count(inside, ({ first, found }) => !first && found.sure)],
    ['other subjects: declined', count(outside, ({ first }) => first)],
    ['other subjects: declined, or said to be unsure',
      count(outside, ({ first, found }) => first || !found.sure)]
  ], table(['Question', 'Wanted', 'Found', 'Sure'], rows.filter(({ first }) => !first).map(
    ({ question, ids, found }) => [question, ids.join(', '), found.id, found.sure ? 'yes' : 'no'])))
}

async function judgeModel () {
  const { asker } = await import('./ask.mjs')
  const ask = await asker(folder)
  const byAnswer = new Map()
  for (const { id, answer } of sheets) {
    const text = answer.replaceAll('\n', ' ')
    byAnswer.set(text, [...byAnswer.get(text) ?? [], id])
  }
  const rows = []
  for (const row of questions) {
    const answer = await ask(row.question)
    const found = byAnswer.get(answer) ?? []
    rows.push({ ...row, answer, found, right: found.some((id) => row.ids.includes(id)) })
  }
  const inside = rows.filter((row) => !isOutside(row))
  const { revision } = readCard(folder)
  const intro = `Revision ${revision}, greedy, by the llama.cpp in svc. An answer is right when it is ` +
    'word for word that of a right sheet:'
  return section('The model', intro, [
    ['right, all questions', count(rows, ({ right }) => right)],
    ['about svc: right', count(inside, ({ right }) => right)],
    ['other subjects: declined', count(rows.filter(isOutside), ({ right }) => right)],
    ['the answer is that of some sheet, word for word', count(rows, ({ found }) => found.length > 0)]
  ], table(['Question', 'Wanted', 'Answered with'], rows.filter(({ right }) => !right).map(
    ({ question, ids, found, answer }) =>
      [question, ids.join(', '), found.join(', ') || answer.replaceAll('|', '\\|')])))
}

const old = readFileSync(here('scores.md'), 'utf8')
const kept = (title) => new RegExp(`## ${title}\n[\\s\\S]*?(?=\n## |$)`).exec(old)?.[0] ?? ''
const search = what === 'model' ? kept('The search') : judgeSearch()
const model = what === 'search' ? kept('The model') : await judgeModel()
const intro = 'On the 100 questions of `questions.tsv`, by\n' +
  '`node --import ./test/tools/typescript.mjs docs/recipes/guide/judge/score.mjs`.'
const text = `# Scores\n\n${intro}\n\n${search.trimEnd()}\n\n${model.trimEnd()}\n`
if (process.argv[3] === undefined) writeFileSync(here('scores.md'), text)
process.stdout.write(text)
