/** Python programs against a node with real models. Each is installed once: see ../python.mjs. */
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { folder, run, startNode, until, type TestNode } from '../../node/kit.js'
import { pythonEnvironment } from '../python.mjs'
import { recorder, reportClient, type Client, type Exchange, type Expected } from '../recorder.js'
import { pullAndPlace } from '../weights-kit.js'
import { folderOf, withoutWeights } from '../weights.js'
import type { Test } from 'tap'

export const MODEL = 'acme/smol'
export const EMBEDDER = 'acme/minilm'
export const QUESTION = 'What is the capital of France?'
export const ANSWER = 'The capital of France is Paris.'

const fileOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

/** A set of packages in `requirements`: its folder of programs, or why it is `missing`. */
export const environment = (name: string): ReturnType<typeof pythonEnvironment> =>
  pythonEnvironment(`python-${name}`, fileOf(`requirements/${name}.txt`))

/** Version of a package in the requirements of an environment. */
export function versionOf (name: string, packageName: string): string {
  const pinned = readFileSync(fileOf(`requirements/${name}.txt`), 'utf8').split('\n')
  const line = pinned.find((line) => line.startsWith(`${packageName}==`)) ?? ''
  return line.slice(packageName.length + 2).split(' ')[0]!
}

/** Skip reason; false if the models are there. */
export const skip = withoutWeights(['smollm2', 'minilm'])

/** Starts a node with the bundled models, SmolLM2 with a template for tools, and MiniLM. */
export async function startModels (
  t: Test, config: Record<string, unknown> = {}, env: Record<string, string> = {}
): Promise<TestNode> {
  const node = await startNode(t, { env, config: {
    cluster: { discovery: false }, model_store: { hub: { enabled: false } },
    plugins: { runners: { threads: 1 } }, ...config
  } })
  const sizes = ['--ctx', '8192', '--slots', '2', '--chat-template', fileOf('tools.jinja')]
  await pullAndPlace(t, node, folderOf('smollm2'), MODEL, sizes)
  await pullAndPlace(t, node, folderOf('minilm'), EMBEDDER)
  return node
}

/** Environment of others' programs: without telemetry, and only loopback can be reached. */
export function quiet (t: Test): Record<string, string> {
  const home = join(folder(t), 'home')
  mkdirSync(home)
  const blocked = 'http://127.0.0.1:9'
  return {
    HOME: home, NO_PROXY: '127.0.0.1,localhost', HTTP_PROXY: blocked, HTTPS_PROXY: blocked,
    OTEL_SDK_DISABLED: 'true', CREWAI_DISABLE_TELEMETRY: 'true', CREWAI_TRACING_ENABLED: 'false',
    LITELLM_LOCAL_MODEL_COST_MAP: 'True'
  }
}

/** Runs a script of `scripts`; returns the JSON line that it prints. Fails the test if the script fails. */
export async function script (
  t: Test, programs: string, name: string, args: readonly string[]
): Promise<Record<string, unknown>> {
  // Without -P, the folder of the scripts would be searched for packages.
  const words = ['-P', fileOf(`scripts/use_${name}.py`), ...args]
  const child = run(join(programs, 'python'), words, { env: quiet(t) })
  const status = await child.ended
  if (status !== 0) throw new Error(`${name}: ${status} ${child.stderr().slice(-3000)}`)
  const line = child.stdout().split('\n').find((line) => line.startsWith('{"'))
  return JSON.parse(line ?? '') as Record<string, unknown>
}

export interface Row extends Omit<Client, 'version'> {
  environment: string
  /** Package with the version of the client. */
  package: string
  script: string
  /** Arguments of the script after URL, models and question. */
  more?: (node: TestNode) => readonly string[]
  expected?: readonly Expected[]
  /** The answers of the script. */
  said: object
}

/** Runs a client through a recorder and writes its report; any answer of 400 or more must be expected. */
export async function check (t: Test, node: TestNode, row: Row): Promise<void> {
  const { folder: programs = '' } = environment(row.environment)
  const recorded = await recorder(t, node)
  const args = [recorded.url, MODEL, EMBEDDER, QUESTION, ...row.more?.(node) ?? []]
  t.match(await script(t, programs, row.script, args), row.said)
  await report(t, row, recorded.exchanges)
}

/** Writes the report of a client, after all its requests ended. */
export async function report (
  t: Test, { client, environment, package: name, set, works, expected = [] }: Omit<Row, 'script' | 'said'>,
  exchanges: Exchange[]
): Promise<void> {
  await until('the end of all answers', () => exchanges.every(({ ended }) => ended !== undefined))
  const version = versionOf(environment, name)
  const { unexpected } = reportClient({ client, version, set, works }, exchanges, [...expected])
  t.same(unexpected, [], 'no other answer of svc is an error')
  const seen = (one: Expected): boolean => exchanges.some(({ path, status, sent, got }) =>
    path.split('?')[0] === one.path && status === one.status && one.sent.test(sent) && one.got.test(got))
  t.same(expected.filter((one) => !seen(one)), [], 'each expected error was seen')
}
