import { readFileSync } from 'node:fs'
import t from 'tap'
import { guideSearch } from '../guide/index.js'
import { makeSearch } from '../guide/search.js'
import { oneEdit } from '../guide/text.js'
import { declarations } from './guide-kit.js'

const search = guideSearch(declarations)

t.test('declared words are found exactly', (t) => {
  const table: readonly (readonly [question: string, id: string])[] = [
    ['insufficient_memory', 'error:insufficient_memory'],
    ['what does INSUFFICIENT_MEMORY mean?', 'error:insufficient_memory'],
    ['i got 503 `no_quorum`, what now', 'error:no_quorum'],
    ['NodeTimedOut', 'event:NodeTimedOut'], ['what is nodetimedout', 'event:NodeTimedOut'],
    ['disk_low', 'health:disk_low'], ['cluster:write', 'authority:cluster:write'],
    ['exit code 6', 'exit:6'], ['my script ended with status 130', 'exit:130'],
    ['api.port', 'config:api.port'], ['what is cluster.quorum for', 'config:cluster.quorum'],
    ['svc place', 'verb:place'], ['place', 'verb:place'], ['svc plugin new', 'verb:plugin_new'],
    ['GET /healthz', 'route:GET_/healthz'], ['/readyz', 'route:GET_/readyz'],
    ['tts@1.0.0', 'capability:tts@1.0.0'], ['nodeDisk', 'state:nodeDisk']
  ]
  for (const [question, id] of table) {
    const found = search(question)
    t.equal(found.id, id, question)
    t.equal(found.sure, true, `${question}: sure`)
  }
  t.end()
})

t.test('every declared word is found by itself, with its own message and remedy', (t) => {
  for (const { errors = {}, conflicts = {}, events = {} } of declarations.manifests) {
    for (const [word, { message, remedy }] of Object.entries(errors)) {
      const { answer } = search(word)
      if (!answer.includes(message) || !answer.includes(remedy)) t.fail(`${word}: ${answer}`)
    }
    for (const [word, { meaning, remediation }] of Object.entries(conflicts)) {
      const { answer } = search(word)
      if (!answer.includes(meaning) || !answer.includes(remediation)) t.fail(`${word}: ${answer}`)
    }
    for (const [word, { summary }] of Object.entries(events)) {
      if (!search(word).answer.includes(summary)) t.fail(`${word}: ${search(word).answer}`)
    }
  }
  t.end()
})

t.test('a word of several kinds has all its meanings', (t) => {
  const { answer } = search('unreachable')
  t.match(answer, /error, HTTP 502/)
  t.match(answer, /health code, warn/)
  t.end()
})

// Questions from documentation and issue trackers of similar servers, with the sheets that answer them.
t.test('what newcomers ask', (t) => {
  const text = readFileSync(new URL('./fixtures/newcomers.tsv', import.meta.url), 'utf8')
  const rows = text.trim().split('\n').map((line) => line.split('\t') as [question: string, ids: string])
  t.ok(rows.length >= 100)
  const missed = rows.filter(([question, ids]) => {
    const { id, near } = search(question)
    const right = ids.split(' ')
    if (!right.includes(id) && !near.some((one) => right.includes(one.id))) t.fail(`${question}: ${id}`)
    return !right.includes(id)
  })
  t.ok(missed.length <= 2, `not first: ${missed.map(([question]) => question).join('; ')}`)
  t.end()
})

t.test('plain questions, with mistakes in spelling too', (t) => {
  const table: readonly (readonly [question: string, id: string])[] = [
    ['how do I add a machine to the cluster', 'join'], ['how do i place a model', 'place'],
    ['how do i plcae a modle', 'place'], ['it talks too fast', 'say_options'],
    ['turn off a plugin I do not need', 'plugin'], ['what is a companion', 'companion'],
    ['Hello!', 'small.hello'], ['who are you', 'small.who']
  ]
  for (const [question, id] of table) t.equal(search(question).id, id, question)
  t.end()
})

t.test('other subjects are declined, and what is unsure says so', (t) => {
  const outside = [
    'how do I roast a duck', 'who was the first man on the moon', 'blorf snizzle', '', '?!', '漢字'
  ]
  for (const question of outside) {
    const found = search(question)
    t.equal(found.id, 'decline', question)
    t.same(found.near, [], question)
  }
  const unsure = search('the node')
  t.equal(unsure.near.length, 3)
  t.equal(search('the node and the model and the store').sure, false)
  t.end()
})

t.test('the same question has the same answer; a hostile one has one soon', (t) => {
  t.same(search('how do i join'), search('how do i join'))
  const hostile = ['{'.repeat(5000), 'a_'.repeat(5000), '__proto__', 'constructor', 'x'.repeat(100_000)]
  for (const question of hostile) {
    t.type(search(question).answer, 'string')
  }
  t.end()
})

t.test('slips of the fingers', (t) => {
  const table: readonly (readonly [string, string, boolean])[] = [
    ['disk', 'dsik', true], ['disk', 'dsk', true], ['disk', 'dissk', true], ['disk', 'dirk', true],
    ['disk', 'disk', true], ['disk', 'idks', false], ['disk', 'disks1', false],
    ['ab', 'ba', true], ['', 'ab', false]
  ]
  for (const [a, b, one] of table) t.equal(oneEdit(a, b), one, `${a} ${b}`)
  t.end()
})

t.test('a search needs a sheet that declines', (t) => {
  const sheet = { id: 'one', title: 'One', answer: 'It is one.', asked: { free: ['what is the first'] } }
  const decline = { id: 'decline', title: 'Other', answer: 'No.', asked: { talk: ['sing a song'] } }
  const find = makeSearch([sheet, decline], [])
  t.match(find('the first'), { id: 'one', answer: 'It is one.' })
  t.equal(find('sing a song').id, 'decline')
  t.throws(() => makeSearch([sheet], []), /decline/)
  t.end()
})

t.test('the questions of the judgement: at least as good as the scores say', (t) => {
  const scores = readFileSync(new URL('../../../docs/recipes/guide/judge/scores.md', import.meta.url), 'utf8')
  const written = Number(/right, all questions \| (\d+) of 100/.exec(scores)?.[1])
  const file = new URL('../../../docs/recipes/guide/judge/questions.tsv', import.meta.url)
  const lines = readFileSync(file, 'utf8').trim().split('\n')
  t.equal(lines.length, 100)
  const right = lines.filter((line) => {
    const [question, ids] = line.split('\t') as [string, string]
    return ids.split(' ').includes(search(question).id)
  })
  t.ok(right.length >= written, `${right.length} right, ${written} written`)
  t.end()
})
