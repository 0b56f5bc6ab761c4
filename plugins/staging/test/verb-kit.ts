import { Readable, Writable } from 'node:stream'
import { runCli } from '../../../kernel/cli/program.js'
import { definePlugin } from '../../../kernel/index.js'
import { standIn } from '../../../kernel/test/cli-helpers.js'
import { createPull } from '../cli/pull.js'
import { createStage } from '../cli/stage.js'
import { verbs } from '../cli/verbs.js'
import { engines } from './cards-kit.js'
import type { Asked } from '../../../kernel/test/cli-helpers.js'
import type { Pace } from '../../../kernel/cli/index.js'
import type { DownloadStatus } from '../store/download.js'
import type { ClusterCopy } from '../types.js'
export { sendError, sendJson } from '../../../kernel/test/cli-helpers.js'

/** A pace without waiting: each pause moves its time on at once. */
export function quickPace (onPause: (count: number) => void = () => {}): Pace {
  let now = 0
  let count = 0
  return {
    mono: () => now,
    async pause (ms) {
      now += ms
      onPause(++count)
    }
  }
}

/** The verbs as a plugin; those that wait do it at this pace. */
export function verbPlugin (pace: Pace = quickPace()): ReturnType<typeof definePlugin> {
  const paced = {
    ...verbs,
    pull: { ...verbs.pull, load: async () => ({ default: createPull(pace) }) },
    stage: { ...verbs.stage, load: async () => ({ default: createStage(pace) }) }
  }
  return definePlugin({
    name: 'models-verbs', version: '1.0.0', kernel: '^1.0.0', summary: 'The verbs about models.',
    verbs: paced, engines
  }, () => ({}))
}

class Kept extends Writable {
  text = ''
  readonly isTTY: boolean
  constructor (terminal: boolean) {
    super()
    this.isTTY = terminal
  }

  override _write (chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString()
    done()
  }
}

export interface RunOptions {
  pace?: Pace
  signal?: AbortSignal
  cwd?: string
  env?: NodeJS.ProcessEnv
  /** All streams are a terminal, on which this is typed. */
  typed?: string
  /** Called with what has been written to stderr so far. */
  onErr?: (text: string) => void
}

/** What a command line did. */
export interface Ran { status: number, out: string, err: string }

/** Runs `svc` with these words. */
export async function svc (words: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const terminal = options.typed !== undefined
  const stdout = new Kept(terminal)
  const stderr = new Kept(terminal)
  if (options.onErr !== undefined) {
    const write = stderr._write.bind(stderr)
    stderr._write = (chunk: Buffer, encoding: string, done: () => void) => {
      write(chunk, encoding, done)
      options.onErr!(stderr.text)
    }
  }
  // What is typed: the text, then the end of the input; with none, an input that stays open.
  const stdin: Readable & { isTTY?: boolean } = options.typed === 'nothing'
    ? new Readable({ read () {} })
    : Readable.from([options.typed ?? ''])
  if (terminal) stdin.isTTY = true
  const status = await runCli(words, {
    io: {
      stdout, stderr, stdin, env: { NO_COLOR: '1', ...options.env }, cwd: options.cwd ?? process.cwd()
    },
    plugins: async () => [verbPlugin(options.pace)],
    signal: options.signal ?? new AbortController().signal
  })
  return { status, out: stdout.text, err: stderr.text }
}

/** Something that answers like a node, and `run`: `svc` against it. */
export interface Rig {
  asked: Asked[]
  /** The requests so far as `METHOD /path`. */
  requests (): string[]
  run (words: readonly string[], options?: RunOptions): Promise<Ran>
}

export type Answers = Parameters<typeof standIn>[1]

/** Starts a stand-in for a node. */
export async function nodeOf (t: { teardown (fn: () => unknown): void }, answers: Answers): Promise<Rig> {
  const { url, asked } = await standIn(t, answers)
  return {
    asked,
    requests: () => asked.map((one) => `${one.method} ${one.url}`),
    run: (words, options) => svc([...words, '--url', url], options)
  }
}

/** A download as a node shows it. */
export function download (more: Partial<DownloadStatus> = {}): DownloadStatus {
  return {
    modelId: 'acme/x', status: 'downloading', progress: 0, error: null, reason: null, downloadedBytes: 0,
    totalBytes: 1000, bytesPerSecond: 0, etaMs: null, source: null, revision: null,
    startedAt: null, ...more
  }
}

/** A copy as GET /models/copies lists it. */
export function copy (more: Partial<ClusterCopy> = {}): ClusterCopy {
  return {
    modelId: 'acme/x', nodeId: 'n1', nodeName: 'node1', kind: 'staged', sizeBytes: 2048, digest: '',
    live: true, ...more
  }
}

/** GET /state of two nodes, with these transfers. */
export function stateOf (downloads: Record<string, object[]> = {}, more: object = {}): object {
  return {
    localNodeId: 'n1',
    nodeIdentities: {
      n1: { friendlyName: 'node1', nodeInstallId: 'i1' }, n2: { friendlyName: 'node2', nodeInstallId: 'i2' }
    },
    lastSeen: { n1: '2026-01-01T00:00:10.000Z', n2: '2026-01-01T00:00:09.000Z' },
    downloads,
    ...more
  }
}
