/** A real node with the bundled models, and client scripts for it, each in its own process. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tinyModel } from '../../plugins/llama-cpp/test/gguf-kit.js'
import { cleanEnv, root, run, sparing, startNode } from '../node/kit.js'
import { recorder, reportClient } from '../real/recorder.js'
import type { Test } from 'tap'
import type { TestNode } from '../node/kit.js'
import type { Client, Exchange, Expected, Recorder } from '../real/recorder.js'

export const MODEL = 'svc/guide'
export const QUESTION = 'how do i stop a model'

/** Folder of the clients that `npm run test:clients` installs. */
const clients = join(root, 'test/clients/node_modules')
/** Skip reason if the clients are not installed; otherwise false. */
export const withoutClients = existsSync(join(clients, 'ai'))
  ? false
  : 'npm run test:clients installs the clients'

/** Path of Claude Code, and the skip reason if it cannot run. */
export const claudeCode = join(clients, '@anthropic-ai/claude-code-linux-x64/claude')
export const withoutClaudeCode = withoutClients ||
  (existsSync(claudeCode) ? false : 'is not for this machine')

/** Path to Node 22 for clients that need it, and the skip reason if they cannot run. */
const node22 = join(clients, 'node22/bin/node')
const isOld = Number(process.versions.node.split('.')[0]) < 22
export const withoutNode22 = withoutClients ||
  (isOld && !existsSync(node22) ? 'wants Node 22, which comes for Linux on x64' : false)

/**
 * A model with random weights that accepts long prompts with tools, as coding agents send them. It has the
 * vocabulary of the bundled model and the chat template of a known model family.
 */
export function longModel (): Record<string, Uint8Array> {
  const text = (path: string): string => readFileSync(join(root, 'plugins', path), 'utf8')
  const { model: { vocab, merges } } = JSON.parse(text('chat/test/fixtures/guide/tokenizer.json')) as
    { model: { vocab: Record<string, number>, merges: string[] } }
  const tokens = Object.keys(vocab).filter((token) => !token.startsWith('<|'))
  const template = text('llama-cpp/test/fixtures/templates/qwen3.jinja')
  return { 'long-F32.gguf': tinyModel({ learned: { tokens, merges }, template, context: 65_536 }) }
}

export async function startClients (t: Test, config: Record<string, unknown> = {}): Promise<TestNode> {
  return await startNode(t, { config, env: sparing(0) })
}

/** Starts a node behind a recorder. */
export async function startRecorded (t: Test): Promise<Recorder & { node: TestNode }> {
  const node = await startClients(t)
  return { ...await recorder(t, node), node }
}

/** The pinned versions of packages. */
function versionOf (names: readonly string[]): string {
  const { dependencies } = JSON.parse(readFileSync(join(root, 'test/clients/package.json'), 'utf8')) as
    { dependencies: Record<string, string> }
  const versions = names.map((name) => dependencies[name]!)
  return names.length === 1 ? versions[0]! : names.map((name, i) => `${name} ${versions[i]}`).join(', ')
}

/**
 * Reports a client, unless its test has failed. Fails if svc refused a request that is not in `expected`, or
 * gave an answer that breaks a published schema.
 */
export function report (
  t: Test, { packages, ...client }: Omit<Client, 'version'> & { packages: string[] },
  exchanges: Exchange[], expected: Expected[] = []
): void {
  t.ok(exchanges.length > 0, 'requests were recorded')
  // The table of clients must not claim what a failed test did not show.
  if (!t.passing()) return
  const { unexpected, broken } =
    reportClient({ ...client, version: versionOf(packages) }, exchanges, expected)
  t.same(unexpected.map(({ method, path, status, sent, got }) =>
    `${method} ${path} ${status}: ${sent.slice(0, 200)} ${got.slice(0, 300)}`), [])
  t.same(broken, [])
}

/**
 * Runs a script that may import the clients; returns its output. Fails the test if the script fails. With
 * `newer`, the script runs on Node 22 or later.
 */
export async function script (
  t: Test, name: string, text: string, args: string[] = [], { newer = false } = {}
): Promise<string> {
  // A folder under node_modules, so that imports resolve to the packages installed there.
  const folder = join(clients, '.svc')
  mkdirSync(folder, { recursive: true })
  const file = join(folder, `${name}-${process.pid}.mjs`)
  writeFileSync(file, text)
  const env = cleanEnv() as Record<string, string>
  const child = run(newer && isOld ? node22 : process.execPath, [file, ...args], { env })
  t.equal(await child.ended, 0, child.stderr())
  return child.stdout()
}
