import { createHash } from 'node:crypto'
import { readFileSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createBundle } from '../../runners/cards/bundle.js'
import { readGguf } from '../../llama-cpp/cards/gguf.js'
import { load } from '../../llama-cpp/test/embedded-kit.js'
import { manifest } from '../manifest.js'

const MEGABYTE = 2 ** 20
const { card, directory } = createBundle({ manifests: [manifest], off: [] }).model('svc/guide')!
const model = await load(t, { card, directory })
/** Answers by sheet id, as worded when the model was trained; the sheets have been reworded since. */
const answersOf = new Map(Object.entries(JSON.parse(
  readFileSync(new URL('fixtures/guide-answers.json', import.meta.url), 'utf8')) as Record<string, string>))

/** No sampling parameters, as from a generic client. */
const answer = async (content: string, more: object = {}): Promise<string> =>
  (await model.ask({ messages: [{ role: 'user', content }], ...more })).text

t.test('the card is about the files beside it; all of it takes at most 8 MB', async (t) => {
  let total = 0
  for (const { path, bytes, sha256 } of card.files) {
    const data = readFileSync(join(directory, path))
    t.equal(data.length, bytes, path)
    t.equal(createHash('sha256').update(data).digest('hex'), sha256, path)
    total += bytes
  }
  t.equal(card.totalBytes, total)
  const { tensors } = await readGguf(join(directory, 'guide.gguf'))
  t.equal(card.parameters, tensors.reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0))
  const all = readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((path) => statSync(join(directory, path))).filter((found) => found.isFile())
  t.ok(all.reduce((sum, { size }) => sum + size, 0) <= 8 * MEGABYTE)
  t.equal(all.length, card.files.length + 1, 'and the card')
  t.match(card.title + card.description, /demo[\s\S]*demo[\s\S]*can be wrong/)
})

t.test('it is greedy by itself, and the same in a batch', async (t) => {
  const questions = ['how do i place a model', 'what is no_quorum', 'thanks', 'who are you', 'write a poem',
    'a port', 'Hello', 'how do nodes find each other']
  const alone: string[] = []
  for (const question of questions) alone.push(await answer(question))
  t.same(await Promise.all(questions.map(async (one) => await answer(one))), alone)
  t.equal(await answer(questions[0]!, { temperature: 0 }), alone[0])
})

t.test('what anybody asks first', async (t) => {
  const table: readonly (readonly [question: string, id: string])[] = [
    ['how do i stop a model', 'stop'], ['what does no_quorum mean?', 'error:no_quorum'],
    ['who are you', 'small.who'], ['thank you', 'small.thanks'], ['hello', 'small.hello'],
    ['write a poem about the sea', 'decline'], ['how do i pull a model', 'pull']
  ]
  for (const [question, id] of table) t.equal(await answer(question), answersOf.get(id), question)
  t.match(answersOf.get('small.who'), /small demo/)
})

t.test('the scores are those of these files', async (t) => {
  const read = (name: string): string =>
    readFileSync(new URL(`../../../docs/recipes/guide/judge/${name}`, import.meta.url), 'utf8')
  const [, scores = ''] = read('scores.md').split('## The model')
  t.match(scores, card.revision)
  const rows = read('questions.tsv').trim().split('\n').map((line) => line.split('\t') as [string, string])
  for (const [question, ids] of rows.filter((_, i) => i % 10 === 0)) {
    const given = await answer(question)
    const right = ids.split(' ').some((id) => answersOf.get(id) === given)
    t.equal(right, !scores.includes(`| ${question} |`), question)
  }
})
