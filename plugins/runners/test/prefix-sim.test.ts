/** Routing by prefix and session against routing by open work, in simulated time. */
import t from 'tap'
import { pick, type Candidate } from '../routing/pick.js'
import { PrefixTable } from '../routing/prefixes.js'

/** An instance: answers at a time, tokens of prompts in its cache, and its speeds. */
const SLOTS = 8
const CACHE_TOKENS = 65_536
const PROMPT_TOKENS_PER_SECOND = 2000
const SECONDS_PER_TOKEN = 0.02
const CHARS_PER_TOKEN = 4
/** Seconds until a node knows what the other nodes' instances hold. */
const NEWS_SECONDS = 0.5

interface Message { id: string, tokens: number, role: string }
interface Job {
  arrived: number, messages: Message[], session: string, answer: number, answered: (at: number) => void
}

/**
 * Conversations that arrive at a rate per second and instance. They share `systems` beginnings of `system`
 * tokens; each turn adds `ask` and `answer` tokens, then pauses for some seconds; all of these are means.
 */
interface Trace {
  rate: number, turns: number, systems: number, system: number, ask: number, answer: number, pause: number
}

const traces: [string, Trace, saved: number][] = [
  // Lengths of ShareGPT as the vLLM paper (arXiv:2309.06180) has them: 161 tokens in, 338 out.
  ['chats of 6 turns',
    { rate: 0.06, turns: 6, systems: 1, system: 150, ask: 161, answer: 338, pause: 20 }, 60],
  // Lengths of Mooncake's trace of tool agents (arXiv:2407.00079): about 8,600 tokens in, 180 out.
  ['agents', { rate: 0.015, turns: 12, systems: 4, system: 6000, ask: 450, answer: 180, pause: 3 }, 60],
  ['one system prompt for all',
    { rate: 0.4, turns: 1, systems: 1, system: 2000, ask: 161, answer: 338, pause: 0 }, 0],
  ['nothing in common',
    { rate: 0.4, turns: 1, systems: Infinity, system: 150, ask: 500, answer: 338, pause: 0 }, 0]
]

function random (seed: number): () => number {
  let state = seed
  return () => {
    state = Math.imul(state ^ state >>> 15, 1 | state) + 0x6d2b79f5 | 0
    const mixed = Math.imul(state ^ state >>> 7, 61 | state) ^ state
    return ((mixed ^ mixed >>> 14) >>> 0) / 2 ** 32
  }
}

type Policy = 'load' | 'prefix'

class Simulation {
  readonly #events: { at: number, run: () => void }[] = []
  readonly #tables: PrefixTable[]
  readonly #instances: { open: number, busy: number, queue: Job[], freeAt: number, cache: Message[][] }[]

  readonly waits: number[] = []
  evaluated = 0
  now = 0
  readonly #random: () => number
  readonly #trace: Trace
  readonly #policy: Policy

  constructor (trace: Trace, policy: Policy, seed: number, count: number) {
    this.#tables = Array.from({ length: count }, () => new PrefixTable())
    this.#instances = this.#tables.map(() => ({ open: 0, busy: 0, queue: [], freeAt: 0, cache: [] }))
    this.#trace = trace
    this.#policy = policy
    this.#random = random(seed)
    for (const table of this.#tables) table.adopt('0'.repeat(32))
  }

  run (conversations: number): this {
    let at = 0
    for (let n = 0; n < conversations; n++) {
      at += this.#spread(1 / this.#trace.rate / this.#tables.length)
      this.#conversation(n, at)
    }
    for (;;) {
      const next = this.#events.shift()
      if (next === undefined) return this
      this.now = next.at
      next.run()
    }
  }

  #spread (mean: number): number { return -Math.log(1 - this.#random()) * mean }

  #at (at: number, run: () => void): void {
    const place = this.#events.findIndex((one) => one.at > at)
    this.#events.splice(place < 0 ? this.#events.length : place, 0, { at, run })
  }

  #conversation (n: number, start: number): void {
    const { systems, system, turns, ask, answer, pause } = this.#trace
    const messages: Message[] = [
      { id: `s${systems === Infinity ? n : n % systems}`, tokens: system, role: 'system' }
    ]
    // Drawn beforehand, so that both policies get the same conversations.
    const drawn = Array.from({ length: turns }, () => ({
      ask: Math.ceil(this.#spread(ask)), answer: Math.ceil(this.#spread(answer)), pause: this.#spread(pause),
      entry: Math.floor(this.#random() * this.#tables.length)
    }))
    const turn = (i: number): void => {
      const { ask, answer, pause, entry } = drawn[i]!
      messages.push({ id: `${n} u${i}`, tokens: ask, role: 'user' })
      this.#route(entry, {
        arrived: this.now, messages: [...messages], session: String(n), answer,
        answered: (at) => {
          messages.push({ id: `${n} a${i}`, tokens: answer, role: 'assistant' })
          if (i + 1 < turns) this.#at(at + pause, () => { turn(i + 1) })
        }
      })
    }
    this.#at(start, () => { turn(0) })
  }

  #route (entry: number, job: Job): void {
    const table = this.#tables[entry]!
    const payload = {
      messages: job.messages.map(({ id, tokens, role }) =>
        ({ role, content: `${id} `.repeat(tokens * 2).slice(0, tokens * CHARS_PER_TOKEN) }))
    }
    const lead = table.lead({ payload, session: job.session })
    const candidates = this.#instances.map(({ open }, i): Candidate => ({
      nodeId: `n${i}`, installId: `i${i}`, instanceId: String(i), runnerId: `r${i}`, own: i === entry,
      load: open, contextTokens: 0,
      ...this.#policy === 'load' ? {} : { held: table.rate(String(i), lead) }
    }))
    const to = Number((pick(candidates, {}) as Candidate).instanceId)
    table.remember(String(to), lead.kept)
    this.#tables[to]!.remember(String(to), lead.kept)
    const news = this.#tables[to]!.hashesOf(String(to))
    this.#at(this.now + NEWS_SECONDS, () => {
      for (const other of this.#tables) if (other !== this.#tables[to]) other.remember(String(to), news)
    })
    this.#instances[to]!.open += 1
    this.#instances[to]!.queue.push(job)
    this.#work(to)
  }

  /** Begins the next job if a slot is free. Prompts are computed one after the other. */
  #work (to: number): void {
    const instance = this.#instances[to]!
    if (instance.busy === SLOTS || instance.queue.length === 0) return
    const job = instance.queue.shift()!
    const reused = Math.max(0, ...instance.cache.map((one) => common(one, job.messages)))
    const tokens = Math.max(1, sizeOf(job.messages) - reused)
    const others = instance.cache.filter((one) => one.some(({ id }, i) => job.messages[i]?.id !== id))
    instance.cache = [job.messages, ...others]
    while (instance.cache.reduce((sum, one) => sum + sizeOf(one), 0) > CACHE_TOKENS) instance.cache.pop()
    this.evaluated += tokens
    instance.busy += 1
    const first = Math.max(this.now, instance.freeAt) + tokens / PROMPT_TOKENS_PER_SECOND
    instance.freeAt = first
    this.waits.push(first - job.arrived)
    const end = first + job.answer * SECONDS_PER_TOKEN
    this.#at(end, () => {
      instance.busy -= 1
      instance.open -= 1
      job.answered(end)
      this.#work(to)
    })
  }
}

function common (a: readonly Message[], b: readonly Message[]): number {
  let sum = 0
  for (let i = 0; i < a.length && a[i]!.id === b[i]?.id; i++) sum += a[i]!.tokens
  return sum
}

const sizeOf = (messages: readonly Message[]): number =>
  messages.reduce((sum, { tokens }) => sum + tokens, 0)

/** Without the first quarter, in which the caches are cold. */
function quantile (all: readonly number[], q: number): number {
  const warm = all.slice(all.length / 4).sort((a, b) => a - b)
  return warm[Math.floor(warm.length * q)]!
}

for (const [name, trace, least] of traces) {
  t.test(name, async (t) => {
    for (const [count, share] of [[3, 1], [8, 1], [8, 1.7]] as const) {
      const run = (policy: Policy): Simulation =>
        new Simulation({ ...trace, rate: trace.rate * share }, policy, 7, count).run(400)
      const [load, prefix] = [run('load'), run('prefix')]
      const saved = 100 * (1 - prefix.evaluated / load.evaluated)
      const [before, after] = [load, prefix].map(({ waits }) => [quantile(waits, 0.5), quantile(waits, 0.95)])
      const told = (of: number[]): string => of.map((seconds) => seconds.toFixed(2)).join('/')
      t.comment(`${count} instances, load ${share}: ${saved.toFixed(1)} % fewer prompt tokens evaluated, ` +
        `seconds to the first token, p50/p95: ${told(before!)} -> ${told(after!)}`)
      if (count > 3 && share === 1) t.ok(saved >= least, 'fewer tokens')
      t.ok(after![1]! <= before![1]! * 1.02, 'the first token does not come later')
    }
  })
}
