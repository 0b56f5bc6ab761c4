/** Whole nodes as real processes on loopback, and requests to them. */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { stringify } from 'yaml'
import { ask } from './http.js'
import { alive, hardKill, runnersOf } from './proc.js'
import type { ChildProcess } from 'node:child_process'
import type { Test } from 'tap'

/** The folder with package.json, even if this file was compiled to a folder below it. */
export const root = ((): string => {
  let folder = new URL('../../', import.meta.url)
  while (!existsSync(new URL('package.json', folder))) folder = new URL('../', folder)
  return fileURLToPath(folder)
})()
export const cli = join(root, 'dist/kernel/cli/main.js')
/** Plugins and engines that fail on demand. */
export const fixture = (name: string): string => fileURLToPath(new URL(`./fixtures/${name}`, import.meta.url))

/** The long form of the fault tests: full repetitions, the product's own timers, figures printed. */
export const full = process.env['SVC_TEST_FULL'] === '1'
/** One value for `npm test`, another for the long form. */
export const pick = <T>(short: T, long: T): T => full ? long : short

/** Checks a fault test's outcome; the long form prints it as one JSON line. */
export function figure (t: Test, id: string, pass: boolean, values: Record<string, unknown>): void {
  if (full) process.stderr.write(`${JSON.stringify({ id, pass, figure: values })}\n`)
  t.ok(pass, `${id}: ${JSON.stringify(values)}`)
}

/**
 * Whether a measured time is within its target. Judged in the long form only, on a quiet machine: the short
 * form's times depend on other load.
 */
export const inTime = (measured: number, target: number): boolean => !full || measured <= target

/**
 * Resolves with the first value that is not undefined, null or false. Rejects with the name of the condition.
 */
export async function until<T> (
  what: string, look: () => T | Promise<T>, { seconds = 60, everyMs = 25 } = {}
): Promise<Exclude<T, undefined | null | false>> {
  const deadline = performance.now() + seconds * 1000
  for (;;) {
    const value = await look()
    if (value !== undefined && value !== null && value !== false) {
      return value as Exclude<T, undefined | null | false>
    }
    if (performance.now() > deadline) throw new Error(`timeout after ${seconds} s waiting for: ${what}`)
    await sleep(everyMs)
  }
}

/** Seconds since a time of performance.now(), to the millisecond. */
export const secondsSince = (start: number): number => Math.round(performance.now() - start) / 1000

/** Resolves after `ms`, or at once when the signal aborts the wait. */
export const sleep = (ms: number, signal?: AbortSignal): Promise<void> => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms)
  signal?.addEventListener('abort', () => { clearTimeout(timer); resolve() }, { once: true })
})

/** A folder that is removed with the test. */
export function folder (t: Test): string {
  const path = mkdtempSync(join(tmpdir(), 'svc-node-'))
  t.teardown(() => { rmSync(path, { recursive: true, force: true, maxRetries: 5 }) })
  return path
}

/**
 * The environment of a child: this process's, without variables of the test runner or of a developer's own
 * svc.
 */
export function cleanEnv (extra: Record<string, string> = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) =>
    !/^(NODE_|TAP|SVC_|npm_|_TAPJS)/i.test(name) && name !== 'FORCE_COLOR')
  return { ...Object.fromEntries(kept), NO_COLOR: '1', ...extra }
}

/** The environment of a node that keeps `bytes` free on its disks instead of 10 GiB. */
export const sparing = (bytes: number): Record<string, string> => ({
  NODE_OPTIONS: `--import=${pathToFileURL(join(root, 'test/tools/spare.mjs')).href}`,
  TEST_SPARE_BYTES: `${bytes}`
})

/** A child process with its output. */
export interface Child {
  process: ChildProcess
  pid: number
  stdout (): string
  stderr (): string
  /** Exit status or signal name. */
  ended: Promise<number | string>
  over (): boolean
}

/** Running children, killed when this process exits for any reason. */
const running = new Set<number>()
process.on('exit', () => { for (const pid of running) hardKill(pid) })

export function run (command: string, args: readonly string[], options: {
  env?: Record<string, string>, cwd?: string
  /** Text for its input; null leaves that open. */
  input?: string | null
} = {}): Child {
  const child = spawn(command, args, {
    env: cleanEnv(options.env), cwd: options.cwd ?? tmpdir(), stdio: ['pipe', 'pipe', 'pipe']
  })
  if (child.pid !== undefined) running.add(child.pid)
  const text = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  child.stdout.on('data', (b: Buffer) => { text.stdout.push(b) })
  child.stderr.on('data', (b: Buffer) => { text.stderr.push(b) })
  child.stdin.on('error', () => {})
  if (options.input !== null) child.stdin.end(options.input ?? '')
  let over = false
  const ended = new Promise<number | string>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => {
      over = true
      running.delete(child.pid ?? 0)
      resolve(code ?? signal ?? 'unknown')
    })
  })
  return {
    process: child,
    pid: child.pid ?? 0,
    stdout: () => Buffer.concat(text.stdout).toString(),
    stderr: () => Buffer.concat(text.stderr).toString(),
    ended,
    over: () => over
  }
}

/** Runs `svc` to its end. */
export async function svc (args: readonly string[], options: Parameters<typeof run>[2] = {}):
Promise<{ status: number | string, stdout: string, stderr: string }> {
  const child = run(process.execPath, [cli, ...args], options)
  const status = await child.ended
  return { status, stdout: child.stdout(), stderr: child.stderr() }
}

export interface NodeOptions {
  /** Text or value of svc.yaml. */
  config?: string | Record<string, unknown>
  env?: Record<string, string>
  home?: string
  args?: readonly string[]
  /** Models to wait for; false waits for listening only. */
  ready?: boolean
  /** Prefix of the command, such as one that runs it on another machine. */
  before?: readonly string[]
  /** The main file of another release. */
  script?: string | undefined
}

/** A running node. `pid` does the work; `child` is the launcher. */
export interface TestNode {
  url: string
  port: number
  nodeId: string
  pid: number
  home: string
  child: Child
  /** The operator's token. */
  token: string
  /** The node's own authority, if it has one (`api.tls: self`). */
  ca?: string | undefined
  /** Pids of the runners. */
  runners (): number[]
  revision (name: string): string
  /** Kills launcher, node and runners at once; true when all are gone. */
  kill (): Promise<void>
}

/** A svc.yaml in a fresh home. */
export function writeConfig (home: string, config: string | Record<string, unknown>): string {
  mkdirSync(home, { recursive: true, mode: 0o700 })
  const path = join(home, 'svc.yaml')
  writeFileSync(path, typeof config === 'string' ? config : stringify(config), { mode: 0o600 })
  return path
}

/** Starts `svc up --json --port 0` and waits for its line and, by default, for /readyz. */
export async function startNode (t: Test, options: NodeOptions = {}): Promise<TestNode> {
  const home = options.home ?? join(folder(t), 'home')
  if (options.config !== undefined) writeConfig(home, options.config)
  const words = [...options.before ?? [], process.execPath,
    options.script ?? cli, 'up', '--json', '--home', home, '--port', '0', ...options.args ?? []]
  const child = run(words[0]!, words.slice(1), { env: { HOME: home, ...options.env } })
  t.teardown(() => hardKill(child.pid))
  const line = await until('the line of svc up', () => {
    if (child.over()) throw new Error(`svc up exited early: ${child.stderr()}`)
    // Log lines may precede it if `logging.enabled` is on.
    return child.stdout().split('\n').find((text) => /^\{"url":.*,"pid":.*,"home":.*\}$/.test(text))
  })
  const told = JSON.parse(line) as { url: string, nodeId: string, home: string }
  const { pid } = JSON.parse(readFileSync(join(home, 'run/node.json'), 'utf8')) as { pid: number }
  const said = { ...told, pid }
  const token = readFileSync(join(home, 'operator.token'), 'utf8').trim()
  const authority = join(home, 'api-ca.crt')
  const ca = existsSync(authority) ? readFileSync(authority, 'utf8') : undefined
  const at = { url: said.url, token, ca }
  if (options.ready !== false) await until('/readyz', async () => (await ask(at, '/readyz')).status === 200)
  const { revisions } = (await ask(at, '/v1/capabilities')).json as { revisions: Record<string, string> }
  t.teardown(() => hardKill(said.pid))
  return {
    ...said, home, child, token, ca,
    port: Number(new URL(said.url).port),
    runners: () => runnersOf(said.pid),
    revision: (name) => revisions[name] ?? 'none',
    async kill () {
      const all = [child.pid, said.pid, ...runnersOf(said.pid)]
      hardKill(child.pid)
      await until('the end of a killed node', () => all.every((pid) => !alive(pid)))
    }
  }
}

/**
 * The svc.yaml of a node with the faulty engine and without slow features. `autoplace`: models placed once in
 * the cluster from the start; `more` is for `runners`.
 */
export function faultsConfig (
  extra: Record<string, unknown> = {},
  { autoplace = ['test/ok'], ...runners }: { autoplace?: string[], [more: string]: unknown } = {}
): Record<string, unknown> {
  return {
    ...extra,
    plugins: {
      faults: { module: fixture('faults.mjs') },
      placement: { autoplace },
      runners,
      ...extra['plugins'] as object | undefined
    }
  }
}

/** Places a model on this node only, by excluding all others; returns the instance's id once it is ready. */
export async function placeOn (at: TestNode, model: string): Promise<string> {
  const { topology } = (await ask(at, '/state')).json as { topology: { nodes: string[] } }
  const others = topology.nodes.filter((nodeId) => nodeId !== at.nodeId)
  const answer = await ask(at, '/place_instance',
    { body: { model_id: model, excluded_nodes: others, wait: true, timeout_seconds: 60 } })
  if (answer.status !== 200) throw new Error(`${model} on ${at.nodeId}: ${answer.status} ${answer.text}`)
  return (answer.json as { instance_id: string }).instance_id
}
