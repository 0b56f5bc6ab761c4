// Time from a question to the steward's first text on three nodes, and how much questions slow chats down.
import http from 'node:http'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { modelAt, tokensOf, writeModels } from '../observe/paced.mjs'
import { figure } from '../lib/report.mjs'
import { interleave, median, quantile } from '../lib/stats.mjs'
import { kit, withTeardown } from './processes.mjs'

const FIRST_MS = 150
const SLOWER = 1.02
/** Milliseconds that the paced engine takes per token. */
const PACE_MS = 4

const QUESTIONS = [
  'what is wrong?', `why does ${modelAt(0)} not answer?`, 'what is running?', 'who is master and since when?',
  'what happened in the last 10 minutes?', `can I run ${modelAt(0)} here?`, 'what would happen if n2 died?',
  'how much room is left on the disks?', 'is everything fine?', 'show me the errors in the logs'
]

/** Asks a question; returns the ms until the answer's first text and until its end. */
function asked (agent, { url, token }, question) {
  const body = JSON.stringify({ question, stream: true })
  return new Promise((resolve, reject) => {
    const start = performance.now()
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json',
      'content-length': Buffer.byteLength(body) }
    const req = http.request(`${url}/v1/steward/ask`, { agent, method: 'POST', headers }, (res) => {
      let firstMs = null
      let text = ''
      res.on('data', (bytes) => {
        text += bytes
        if (firstMs === null && text.includes('"type":"text"')) firstMs = performance.now() - start
      })
      res.on('error', reject)
      res.on('end', () => {
        if (res.statusCode === 200 && firstMs !== null) resolve({ firstMs,
          totalMs: performance.now() - start })
        else reject(new Error(`${res.statusCode}: ${text.slice(0, 300)}`))
      })
    })
    req.on('error', reject)
    req.end(body)
  })
}

/** Runs streams in rotation: without questions, with one question a second, and with nonstop questions. */
async function tokens (client, rounds, count, ask) {
  const stream = async () => {
    const { gaps } = await tokensOf(client, client.authorization, { tokens: count, ms: PACE_MS })
    return gaps.reduce((a, b) => a + b, 0) / gaps.length
  }
  const beside = (pauseMs) => async () => {
    const over = new AbortController()
    const asking = (async () => {
      for (let n = 0; !over.signal.aborted; n++) {
        await ask(n)
        if (pauseMs > 0) await delay(pauseMs, undefined, over).catch(() => {})
      }
    })()
    const mean = await stream()
    over.abort()
    await asking
    return mean
  }
  const times = await interleave(rounds + 1, { alone: stream, asked: beside(1000), full: beside(0) })
  return Object.fromEntries(Object.entries(times).map(([name, list]) => [name, list.slice(1)]))
}

export default {
  title: 'The steward: first words, and the tokens of others',
  async run ({ short }) {
    const home = mkdtempSync(join(tmpdir(), 'svc-bench-'))
    try {
      return await withTeardown(async (t) => await measure(t, home, short))
    } finally {
      rmSync(home, { recursive: true, force: true })
    }
  }
}

async function measure (t, home, short) {
  const cluster = await kit.startCluster(t, { nodes: 3, config: {
    plugins: { placement: { autoplace: [] }, observed: { module: writeModels(home, 1) } } } })
  const [first, second] = cluster.members
  const agent = new http.Agent({ keepAlive: true })
  t.teardown(() => { agent.destroy() })
  const placed = await second.ask('/place_instance', { method: 'POST', ms: 120_000,
    body: { model_id: modelAt(0), excluded_nodes: ['n1', 'n3'], wait: true, timeout_seconds: 90 } })
  if (placed?.status !== 200) throw new Error(placed?.text ?? 'the model was not placed')
  const ask = (n) => asked(agent, first.node, QUESTIONS[n % QUESTIONS.length])
  for (let n = 0; n < QUESTIONS.length; n++) await ask(n)
  const answers = []
  for (let n = 0; n < 100; n++) answers.push(await ask(n))
  const rounds = short ? 5 : 30
  const client = { url: second.node.url, agent, authorization: `Bearer ${second.node.token}` }
  const there = await tokens(client, rounds, 300, ask)
  const here = await tokens({ ...client, url: first.node.url, authorization: `Bearer ${first.node.token}` },
    rounds, 300, ask)
  const firsts = answers.map(({ firstMs }) => firstMs)
  const ratio = ({ alone }, times) => median(times.map((time, i) => time / alone[i]))
  const row = (name, values) => [name, ...[0.5, 0.95].map((q) => figure(quantile(values, q), 'ms'))]
  return {
    columns: ['', 'p50', 'p95'],
    rows: [
      row('question to the first words', firsts),
      row('question to the end of the answer', answers.map(({ totalMs }) => totalMs)),
      row('a token, nobody asks', there.alone),
      row('a token at a node beside the one that is asked', there.asked),
      row('the same, one question after the other', there.full),
      row('a token at the node that is asked, nobody asks', here.alone),
      row('a token at the node that is asked', here.asked),
      row('the same, one question after the other', here.full)
    ],
    targets: [
      { name: 'first words, p50', value: median(firsts), limit: FIRST_MS, unit: 'ms' },
      { name: 'a token beside questions, to none', value: ratio(there, there.asked), limit: SLOWER },
      { name: 'a token at the node that is asked, to none', value: ratio(here, here.asked), limit: SLOWER }
    ],
    notes: [
      '100 questions of ten kinds, at one node of three',
      `then ${rounds} streams of 300 tokens of ${PACE_MS} ms with a question every second, in turn with as ` +
        'many without, and as many with one question after the other',
      'one question after the other keeps a core busy: a token takes ' +
        `${ratio(there, there.full).toFixed(3)} times as long, at the node that is asked ` +
        `${ratio(here, here.full).toFixed(3)} times`
    ],
    data: { firsts, there, here }
  }
}
