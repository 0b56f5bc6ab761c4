/** Real models in whole nodes, and the bare programs on the same files. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildLlama } from '../llama/build.mjs'
import { ask, type At } from '../node/http.js'
import { freePorts } from '../node/ports.js'
import { cleanEnv, run, startNode, svc, until, type TestNode } from '../node/kit.js'
import { descendants } from '../node/proc.js'
import { ggufOf, library } from './weights.js'
import type { Test } from 'tap'

export type Fields = Record<string, unknown>
export const DRIVERS = ['server', 'library'] as const
export type Driver = typeof DRIVERS[number]

export const CONTEXT = 2048
export const SLOTS = 2
/** Maximum number of tokens of an answer. */
export const TOKENS = 32
/** Batch size of svc's embedded llama.cpp. */
const BATCH = 128
const PULL_SECONDS = 120

/** Path of llama-server, or why there is none. */
export function serverProgram (): { path: string } | { missing: string } {
  try {
    return { path: join(buildLlama(), 'llama-server') }
  } catch (error) {
    return { missing: (error as Error).message }
  }
}

/** Starts a node that runs models with one driver. */
export async function startWith (t: Test, driver: Driver, server: string): Promise<TestNode> {
  return await startNode(t, {
    config: {
      cluster: { discovery: false },
      plugins: { placement: { autoplace: [] }, runners: { threads: 1 } },
      model_store: { hub: { enabled: false } }
    },
    // Without a llama-server in the PATH, models run on the llama.cpp that svc includes.
    env: driver === 'server' ? { SVC_LLAMA_SERVER_BIN: server } : { PATH: '/usr/bin:/bin' }
  })
}

/** Runs `svc` for a node; fails the test if the command fails. Returns all that it prints. */
async function svcAt (t: Test, node: TestNode, args: readonly string[]): Promise<string> {
  const { status, stdout, stderr } = await svc(args, { env: { SVC_HOME: node.home } })
  t.equal(status, 0, `svc ${args[0]}: ${stdout}${stderr}`)
  return `${stdout}${stderr}`
}

/** Pulls a model from a path and places it, as a user does; returns what both commands print. */
export async function pullAndPlace (
  t: Test, node: TestNode, path: string, model: string, sizes: readonly string[] = []
): Promise<{ pulled: string, placed: string }> {
  const pulled = await svcAt(t, node, ['pull', path, '--as', model])
  const placed = await svcAt(t, node, ['place', model, ...sizes, `--wait=${PULL_SECONDS}`])
  return { pulled, placed }
}

/** Starts llama-server itself on a model. */
export async function bareServer (t: Test, server: string, model: string): Promise<At> {
  const [port] = await freePorts(1)
  const child = run(server, ['--model', ggufOf(model), '--host', '127.0.0.1', '--port', `${port}`,
    '--threads', '1', '--ctx-size', `${CONTEXT * SLOTS}`, '--parallel', `${SLOTS}`,
    '--n-gpu-layers', '0', '--device', 'none'])
  t.teardown(() => { child.process.kill('SIGKILL') })
  const at = { url: `http://127.0.0.1:${port}` }
  await until('llama-server', async () => {
    if (child.over()) throw new Error(child.stderr())
    return await ask(at, '/health').then(({ status }) => status === 200, () => false)
  })
  return at
}

export interface Text { text: string, logprobs: number[] }

/** Runs node-llama-cpp itself on prompts, in another process. */
export function bareLibrary (model: string, prompts: readonly string[]): Text[] {
  const job = {
    library, model: ggufOf(model), context: CONTEXT, batch: BATCH, prompts, tokens: TOKENS
  }
  const script = fileURLToPath(new URL('library.mjs', import.meta.url))
  const { status, stdout, stderr } = spawnSync(process.execPath, [script], {
    input: JSON.stringify(job), encoding: 'utf8', env: cleanEnv(), maxBuffer: 2 ** 26
  })
  if (status !== 0) throw new Error(`node-llama-cpp: ${stderr}`)
  return JSON.parse(stdout) as Text[]
}

interface Choice {
  text?: string
  finish_reason: string
  message?: { content: string | null, tool_calls?: { function: { name: string, arguments: string } }[] }
  logprobs?: { content?: { token: string, logprob: number }[], token_logprobs?: number[] }
}
export interface Answered { status: number, choice: Choice | undefined, body: string }

/** Requests a chat or, with `prompt`, a completion at temperature 0. */
export async function answerOf (at: At, body: Fields): Promise<Answered> {
  const path = 'prompt' in body ? '/v1/completions' : '/v1/chat/completions'
  const whole = { temperature: 0, max_tokens: TOKENS, ...body }
  const { status, json, text } = await ask(at, path, { body: whole })
  return { status, choice: (json as { choices?: Choice[] }).choices?.[0], body: text }
}

/** Text and log probabilities of an answer. */
export function textOf ({ choice, body }: Answered): Text {
  if (choice === undefined) throw new Error(body)
  const { text, message, logprobs } = choice
  // llama-server lists the end mark, which is no part of the text, unless it streams.
  const chat = logprobs?.content?.filter(({ token }) => token !== '').map(({ logprob }) => logprob)
  return { text: text ?? message?.content ?? '', logprobs: chat ?? logprobs?.token_logprobs ?? [] }
}

/** Sum of the peaks of the resident memory of a process and its descendants in bytes. */
function peakOf (pid: number): number {
  return [pid, ...descendants(pid)].reduce((sum, each) =>
    sum + 1024 * Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${each}/status`, 'utf8'))?.[1]), 0)
}

/** The memory of a node's only runner, as placement counts it and at its peak, in MiB. */
export async function memoryOf (node: TestNode): Promise<{ counted: number, peak: number }> {
  const { nodeSystem } = (await ask(node, '/state')).json as
    { nodeSystem: Record<string, { runnerMemory: Record<string, { estimatedBytes: number }> }> }
  const [counted] = Object.values(nodeSystem[node.nodeId]!.runnerMemory)
  const [runner] = node.runners()
  const mib = (bytes: number): number => Math.round(bytes / 2 ** 20)
  return { counted: mib(counted!.estimatedBytes), peak: mib(peakOf(runner!)) }
}
