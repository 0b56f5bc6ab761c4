/** Hostile questions must be cheap: they are answered, or refused with the name of the bad field. */
import t from 'tap'
import { editDistance, systemClock } from '../../../kernel/index.js'
import { startPlugin } from '../../../kernel/testing/index.js'
import chat from '../../chat/index.js'
import diagnostics from '../../diagnostics/index.js'
import runners from '../../runners/index.js'
import staging from '../../staging/index.js'
import steward from '../index.js'
import { STEWARD } from '../model.js'
import { understand } from '../reader/question.js'
import { Near } from '../reader/words.js'
import type { World } from '../reader/entities.js'

const DEEP = `${'['.repeat(10_000)}${']'.repeat(10_000)}`
const many = (count: number, one: object): string => JSON.stringify(Array(count).fill(one))
const asking = (question: string, more = ''): string => `{"question":${JSON.stringify(question)}${more}}`

/** Request bodies with the expected status and, for a refusal, its message. */
const QUESTIONS: readonly [name: string, body: string | Buffer, status: number, words?: RegExp][] = [
  ['a megabyte', asking('x'.repeat(1e6)), 413, /payload_too_large/],
  ['a character too many', asking('x'.repeat(4001)), 400, /"param":"question"/],
  ['as long as may be', asking('why? '.repeat(800)), 200],
  ['10,000 turns', `{"question":"x","thread":${many(10_000, { role: 'user', text: 'x' })}}`, 413, /payload/],
  ['101 turns', `{"question":"x","thread":${many(101, { role: 'user', text: 'x' })}}`, 400, /"thread"/],
  ['100 turns', `{"question":"x","thread":${many(100, { role: 'user', text: 'x' })}}`, 200],
  ['the role of a tool', '{"question":"x","thread":[{"role":"tool","text":"x"}]}', 400, /thread\.0\.role/],
  ['half a pair', '{"question":"fine \\ud800?"}', 400, /surrogate/],
  ['half a pair before', '{"question":"x","thread":[{"role":"user","text":"\\udfff"}]}', 400, /surrogate/],
  ['no UTF-8', Buffer.from('{"question":"\xff\xc0"}', 'latin1'), 400],
  ['NUL', '{"question":"is\\u0000 everything\\u0000 fine?"}', 200],
  ['steering a terminal', '{"question":"\\u001b[2J\\u009bis everything fine?\\u0007"}', 200],
  ['right to left', '{"question":"\\u202eis everything\\u2066 fine?"}', 200],
  ['marks only', asking('?!?!…'), 200], ['a deep question', `{"question":${DEEP}}`, 400, /nested deeper/],
  ['a deep thread', `{"question":"x","thread":${DEEP}}`, 400, /nested deeper/],
  ['names of objects', asking('constructor __proto__ toString hasOwnProperty?'), 200],
  ['a prototype', asking('x', ',"__proto__":{"stream":true}'), 400],
  ['twice', '{"question":"a","question":"b"}', 400, /repeated/], ['no object', '[]', 400],
  ['null', 'null', 400],
  ['no JSON', 'is everything fine?', 400], ['nothing', '', 400]
]

/** Messages for the chat APIs with the expected status. */
const MESSAGES: readonly [name: string, messages: string, status: number][] = [
  ['a megabyte', `[{"role":"user","content":"${'x'.repeat(1e6)}"}]`, 400],
  ['10,000 messages', many(10_000, { role: 'user', content: 'why' }), 400],
  ['2000 messages', many(2000, { role: 'user', content: 'why' }), 200],
  ['half a pair', '[{"role":"user","content":"fine \\ud800?"}]', 400],
  ['NUL', '[{"role":"user","content":"is everything\\u0000 fine?"}]', 200],
  ['a role that nobody has', '[{"role":"god","content":"x"}]', 400], ['none', '[]', 400], ['deep', DEEP, 400],
  ['an answer only', '[{"role":"assistant","content":"x"}]', 400]
]

t.test('whatever is sent, the next question is answered', async (t) => {
  const plugins = [staging, runners, chat, diagnostics]
  const rig = await startPlugin(t, steward, { plugins, clock: systemClock })
  const post = async (url: string, payload: string | Buffer): ReturnType<typeof rig.inject> =>
    await rig.inject({ method: 'POST', url, payload, headers: { 'content-type': 'application/json' } })
  const fine = async (after: string): Promise<void> => {
    const { statusCode, body } = await post('/v1/steward/ask', asking('is everything fine?'))
    t.match([statusCode, JSON.parse(body)], [200, { diagnosis: 'Nothing is wrong.' }], `after ${after}`)
  }
  for (const [name, payload, status, words] of QUESTIONS) {
    const { statusCode, body } = await post('/v1/steward/ask', payload)
    t.equal(statusCode, status, `${name}: ${body.slice(0, 200)}`)
    t.match(JSON.parse(body), status === 200 ? { text: /^\P{Cc}+\n/u } : { error: { code: status } }, name)
    if (words !== undefined) t.match(body, words, name)
  }
  await fine('hostile questions')
  const apis = {
    '/v1/chat/completions': '', '/v1/messages': ',"max_tokens":9', '/ollama/api/chat': ',"stream":false'
  }
  for (const [url, more] of Object.entries(apis)) {
    for (const [name, messages, status] of MESSAGES) {
      const { statusCode, body } = await post(url, `{"model":"${STEWARD}","messages":${messages}${more}}`)
      // Ollama accepts a request without messages, which only loads the model.
      const expected = url.startsWith('/ollama/') && name === 'none' ? 200 : status
      t.equal(statusCode, expected, `${url}: ${name}: ${body.slice(0, 200)}`)
      t.notMatch(body, '\\u0000', name)
    }
  }
  await fine('hostile messages')
})

t.test('a long question costs no look at every model for each of its words', async (t) => {
  let looks = 0
  const names = Array.from({ length: 1000 }, (_, i) => `acme/model-${i}`)
  const models = new Proxy(names, {
    get (all, key, self) {
      if (typeof key === 'string' && /^\d+$/.test(key)) looks++
      return Reflect.get(all, key, self) as unknown
    }
  })
  const world: World = {
    models, tasks: {}, nodes: [], instances: {}, master: null, local: null, nowMs: 0, zoneMin: 0
  }
  const text = Array.from({ length: 400 }, (_, i) => `modle-${i}x`).join(' ')
  understand(text, Array.from({ length: 6 }, () => ({ role: 'user', text })), world)
  t.ok(looks > 0 && looks <= 5 * names.length, `${looks} looks`)
})

t.test('a slip is found without comparing all words letter by letter', async (t) => {
  const known = ['voice', 'reader', 'playground', 'placement', 'model-12', 'model-13', 'stewardship', 'tiny']
  const near = new Near(known)
  const letters = 'abcdeghilmnoprtvy-123'
  for (const word of known) {
    for (let i = 0; i <= word.length; i++) {
      for (const letter of letters) {
        const slips = [`${word.slice(0, i)}${letter}${word.slice(i)}`, word.slice(0, i) + word.slice(i + 1),
          `${word.slice(0, i)}${letter}${word.slice(i + 1)}`]
        for (const slip of slips.filter((one) => one.length >= 4)) {
          const most = slip.length < 8 ? 1 : 2
          const figures = (one: string): string => (one.match(/\d+/g) ?? []).join(' ')
          const meant = known.filter((one) => figures(one) === figures(slip))
            .map((one) => ({ one, far: editDistance(one, slip) + (one[0] === slip[0] ? 0 : 0.25) }))
            .filter(({ far }) => far < most + 0.5).sort((a, b) => a.far - b.far)[0]?.one
          if (near.slipOf(slip) !== meant) t.fail(`${slip}: ${near.slipOf(slip)}, not ${meant}`)
        }
      }
    }
  }
  t.equal(near.slipOf('plagronud'), 'playground')
  t.equal(near.slipOf('modle-12'), 'model-12')
})
