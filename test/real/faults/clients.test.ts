/** The error classes that clients map svc's errors to, with real weights and a real llama-server. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { script, withoutClients } from '../../clients/kit.js'
import { ask } from '../../node/http.js'
import { run, startNode, type TestNode } from '../../node/kit.js'
import { pullAndPlace, serverProgram } from '../weights-kit.js'
import { folderOf, withoutWeights } from '../weights.js'
import { pythonEnvironment } from '../python.mjs'
import { recorder, textOf, type Exchange } from '../recorder.js'
import { engines, MODEL } from './kit.js'

const at = (name: string): string => fileURLToPath(new URL(name, import.meta.url))
const program = serverProgram()
const server = 'path' in program ? program.path : ''
const python = pythonEnvironment('faults', at('requirements.txt'))
const withoutModels = 'missing' in program ? program.missing : withoutWeights(['smollm2'])
const skip = withoutModels || withoutClients || (python.missing ?? false)

type Client = 'openai' | 'litellm' | 'langchain' | 'openai-js' | 'langchain-js'
interface Result { client: Client, case: string, raised: string[], message?: string, text: string | null }
type Classes = { [client in Client]?: string } & { openai: string }

/** For each case, the class that OpenAI's Python client raises, and those of others that differ. */
const CLASSES: Record<string, Classes> = {
  'unknown model': { openai: 'NotFoundError' },
  context: {
    openai: 'BadRequestError', litellm: 'ContextWindowExceededError',
    langchain: 'OpenAIContextOverflowError', 'langchain-js': 'ContextOverflowError'
  },
  'bad field': { openai: 'BadRequestError' },
  'wrong key': { openai: 'AuthenticationError' },
  // LiteLLM has no class for a 403 of OpenAI's API.
  'no authority': { openai: 'PermissionDeniedError', litellm: 'APIError' },
  timeout: {
    openai: 'APITimeoutError', 'openai-js': 'APIConnectionTimeoutError', 'langchain-js': 'TimeoutError'
  },
  overload: { openai: 'RateLimitError' },
  killed: { openai: 'APIError', litellm: 'MidStreamFallbackError' }
}

function check (t: Test, result: Result): void {
  const { client, case: name, raised, text } = result
  const classes = CLASSES[name]
  const wanted = classes?.[client] ?? classes?.openai
  const isRight = wanted === undefined
    ? raised.length === 0 && (text ?? '') !== ''
    : raised.some((each) => each.split('.').at(-1) === wanted)
  t.ok(isRight, `${client}: ${name}: ${JSON.stringify(result)}`)
}

/** Times at which the test first saw an exchange, in ms. */
type Seen = Map<Exchange, number>

/** Kills the engine once under each stream of the case `killed`; notes when requests arrive. */
function watch (t: Test, node: TestNode, exchanges: Exchange[]): { seen: Seen, killed: () => number } {
  const seen: Seen = new Map()
  const done = new Set<Exchange>()
  const timer = setInterval(() => {
    for (const exchange of exchanges.slice(seen.size)) seen.set(exchange, performance.now())
    for (const exchange of exchanges) {
      if (done.has(exchange) || !exchange.sent.includes('story: kill') || textOf(exchange) === '') continue
      done.add(exchange)
      process.kill(engines(node)[0]!, 'SIGKILL')
    }
  }, 10)
  t.teardown(() => { clearInterval(timer) })
  return { seen, killed: () => done.size }
}

/** A request that was refused is repeated no sooner than `Retry-After` says. */
function checkRetries (t: Test, seen: Seen): number {
  let repeated = 0
  let last: { exchange: Exchange, at: number } | undefined
  for (const [exchange, at] of seen) {
    if (!exchange.sent.includes('overload 20')) continue
    if (last?.exchange.status === 429) {
      const seconds = Number(last.exchange.headers?.['retry-after'])
      t.ok(seconds >= 1 && at - last.at >= seconds * 1000 - 50, `after ${at - last.at} ms for ${seconds} s`)
      repeated++
    }
    last = { exchange, at }
  }
  return repeated
}

t.test('error classes', { skip, timeout: 900_000 }, async (t) => {
  const node = await startNode(t, {
    config: {
      access: { local: [] },
      cluster: { discovery: false },
      plugins: { placement: { autoplace: [] }, runners: { threads: 1, max_queued: 0 } },
      model_store: { hub: { enabled: false } }
    },
    env: { SVC_LLAMA_SERVER_BIN: server }
  })
  await pullAndPlace(t, node, folderOf('smollm2'), MODEL, ['--ctx', '1024', '--slots', '1'])
  const tokenOf = async (authority: string): Promise<string> => {
    const made = await ask(node, '/v1/tokens', { body: { label: authority, authorities: [authority] } })
    return (made.json as { token: string }).token
  }
  const keys = [await tokenOf('invoke'), 'sk-wrong', await tokenOf('read')]
  const { url, exchanges } = await recorder(t, node)
  const { seen, killed } = watch(t, node, exchanges)
  const results: Result[] = []
  const child = run(join(python.folder!, 'python'), [at('clients.py'), url, ...keys, MODEL])
  t.equal(await child.ended, 0, child.stderr())
  results.push(...JSON.parse(child.stdout()) as Result[])
  const text = readFileSync(at('clients.mjs'), 'utf8')
  results.push(...JSON.parse(await script(t, 'faults', text, [url, ...keys, MODEL])) as Result[])
  for (const result of results) check(t, result)
  t.equal(killed(), 5, 'each client saw the engine die')
  t.ok(checkRetries(t, seen) > 0)
  await node.kill()
})
