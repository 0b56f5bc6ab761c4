/** Complete nodes as real processes on loopback, and requests to them. */
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { stringify } from 'yaml'
import { ask } from './http.js'
import { alive, hardKill, runnersOf } from './proc.js'
import type { Test } from 'tap'

/** Repository root, found by its package.json, even if this file was compiled into a subfolder. */
export const root = ((): string => {
  let folder = new URL('../../', import.meta.url)
  while (!existsSync(new URL('package.json', folder))) folder = new URL('../', folder)
  return fileURLToPath(folder)
})()
export const cli = join(root, 'dist/kernel/cli/main.js')
/** Path of a plugin or engine that fails on demand. */
export const fixture = (name: string): string => fileURLToPath(new URL(`./fixtures/${name}`, import.meta.url))

/** Whether fault tests run in long form, with all repetitions, the product's timers and printed figures. */
export const full = process.env['SVC_TEST_FULL'] === '1'
/** Returns `short` in `npm test`, `long` in the long form. */
export const pick = <T>(short: T, long: T): T => full ? long : short

/** Checks the outcome of a fault test; the long form prints the values as one JSON line. */
export function figure (t: Test, id: string, pass: boolean, values: Record<string, unknown>): void {
  if (full) process.stderr.write(`${JSON.stringify({ id, pass, figure: values })}\n`)
  t.ok(pass, `${id}: ${JSON.stringify(values)}`)
}

/**
 * Whether a measured time meets its target. Always true in the short form, because the time depends on other
 * load; the long form needs a quiet machine.
 */
export const inTime = (measured: number, target: number): boolean => !full || measured <= target

/**
 * Resolves with the first value that is not undefined, null or false. A timeout's error names the condition.
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

/** Seconds since a performance.now() timestamp, rounded to the millisecond. */
export const secondsSince = (start: number): number => Math.round(performance.now() - start) / 1000

/** Resolves after `ms`, or at once when the signal aborts the wait. */
export const sleep = (ms: number, signal?: AbortSignal): Promise<void> => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms)
  signal?.addEventListener('abort', () => { clearTimeout(timer); resolve() }, { once: true })
})

/** A temporary folder, removed at the end of the test. */
export function folder (t: Test): string {
  const path = mkdtempSync(join(tmpdir(), 'svc-node-'))
  t.teardown(() => { rmSync(path, { recursive: true, force: true, maxRetries: 5 }) })
  return path
}

/**
 * The environment of a child: this process's environment without variables from the test runner or from a
 * developer's own svc.
 */
export function cleanEnv (extra: Record<string, string> = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) =>
    !/^(NODE_|TAP|SVC_|npm_|_TAPJS)/i.test(name) && name !== 'FORCE_COLOR')
  return { ...Object.fromEntries(kept), NO_COLOR: '1', ...extra }
}

/** Environment of a node that keeps `bytes` free on its disks instead of the product's 10 GiB. */
export const sparing = (bytes: number): Record<string, string> => ({
  NODE_OPTIONS: `--import=${pathToFileURL(join(root, 'test/tools/spare.mjs')).href}`,
  TEST_SPARE_BYTES: `${bytes}`
})

/** A child process and its output so far. */
export interface Child {
  process: ChildProcess
  pid: number
  stdout (): string
  stderr (): string
  /** Exit status or signal name. */
  ended: Promise<number | string>
  over (): boolean
}

/** Pids of running children, which are killed when this process exits for any reason. */
const running = new Set<number>()
process.on('exit', () => { for (const pid of running) hardKill(pid) })

export function run (command: string, args: readonly string[], options: {
  env?: Record<string, string>, cwd?: string
  /** Text for the child's stdin; null leaves stdin open. */
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

/** Runs `svc` until it exits. */
export async function svc (args: readonly string[], options: Parameters<typeof run>[2] = {}):
Promise<{ status: number | string, stdout: string, stderr: string }> {
  const child = run(process.execPath, [cli, ...args], options)
  const status = await child.ended
  return { status, stdout: child.stdout(), stderr: child.stderr() }
}

export interface NodeOptions {
  /** svc.yaml as text or value. */
  config?: string | Record<string, unknown>
  env?: Record<string, string>
  home?: string
  args?: readonly string[]
  /** Whether the start waits for /readyz; false waits for the address only. */
  ready?: boolean
  /** Command prefix, for example one that runs the node on another machine. */
  before?: readonly string[]
  /** Main file of another release to start. */
  script?: string | undefined
}

/** A running node. `pid` is the node process, `child` its launcher. */
export interface TestNode {
  url: string
  port: number
  nodeId: string
  pid: number
  home: string
  child: Child
  /** The operator's token. */
  token: string
  /** Certificate of the node's own authority (only with `api.tls: self`). */
  ca?: string | undefined
  /** Pids of the node's runners. */
  runners (): number[]
  revision (name: string): string
  /** Kills launcher, node and runners together; resolves to true when all have exited. */
  kill (): Promise<void>
}

/** Writes svc.yaml into a home. */
export function writeConfig (home: string, config: string | Record<string, unknown>): string {
  mkdirSync(home, { recursive: true, mode: 0o700 })
  const path = join(home, 'svc.yaml')
  writeFileSync(path, typeof config === 'string' ? config : stringify(config), { mode: 0o600 })
  return path
}

/** Starts `svc up --json --port 0`; waits until it prints its address and, by default, for /readyz. */
export async function startNode (t: Test, options: NodeOptions = {}): Promise<TestNode> {
  const home = options.home ?? join(folder(t), 'home')
  if (options.config !== undefined) writeConfig(home, options.config)
  const words = [...options.before ?? [], process.execPath,
    options.script ?? cli, 'up', '--json', '--home', home, '--port', '0', ...options.args ?? []]
  const child = run(words[0]!, words.slice(1), { env: { HOME: home, ...options.env } })
  t.teardown(() => hardKill(child.pid))
  const line = await until('the line of svc up', () => {
    if (child.over()) throw new Error(`svc up exited early: ${child.stderr()}`)
    // Log lines may precede the address line if `logging.enabled` is on.
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
 * svc.yaml of a node with the faulty engine and without slow features. `autoplace` lists models to place once
 * in the cluster from the start; `more` is added to the settings of `runners`.
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

/** Places a model on this node only, by excluding all others; returns the instance id when it is ready. */
export async function placeOn (at: TestNode, model: string): Promise<string> {
  const { topology } = (await ask(at, '/state')).json as { topology: { nodes: string[] } }
  const others = topology.nodes.filter((nodeId) => nodeId !== at.nodeId)
  const answer = await ask(at, '/place_instance',
    { body: { model_id: model, excluded_nodes: others, wait: true, timeout_seconds: 60 } })
  if (answer.status !== 200) throw new Error(`${model} on ${at.nodeId}: ${answer.status} ${answer.text}`)
  return (answer.json as { instance_id: string }).instance_id
}
