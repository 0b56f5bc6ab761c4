/** The external program: which one, and what it can do. */
import { execFile } from 'node:child_process'
import { isAbsolute } from 'node:path'
import { promisify } from 'node:util'
import { EngineError } from '../../../kernel/api/engine.js'

/** A program that is llama.cpp's server. */
export interface Binary {
  path: string
  /** Names of its options, as `--model`. */
  flags: ReadonlySet<string>
  /** It can listen on a socket file. */
  sockets: boolean
}

/** Looked for in PATH where the operator named no other. */
const DEFAULT_PROGRAM = 'llama-server'
const NEEDED = ['--model', '--host', '--port', '--ctx-size', '--parallel', '--threads', '--api-key-file']
const HELP_MS = 60_000
const HELP_BYTES = 4 * 2 ** 20

/**
 * The program to run: the absolute path the operator gave in SVC_LLAMA_SERVER_BIN, which the node has
 * checked, else `llama-server`, found in PATH. @throws EngineError for a path that is not absolute
 */
export function binaryOf (options: Readonly<Record<string, unknown>>): string {
  const given = options['serverBinary']
  if (given === undefined) return DEFAULT_PROGRAM
  if (typeof given === 'string' && isAbsolute(given)) return given
  throw new EngineError('provider_error',
    `SVC_LLAMA_SERVER_BIN is ${JSON.stringify(given)}: it takes an absolute path`)
}

/** Reads the list of options a server prints. Pure. */
export function readHelp (text: string): Omit<Binary, 'path'> {
  return { flags: new Set(text.match(/--[a-z][a-z0-9-]+/g)), sockets: /unix socket/i.test(text) }
}

/** Asks a program for its options. @throws EngineError for one that is not there, or is no such server */
export async function examine (path: string): Promise<Binary> {
  const help = await helpOf(path)
  const { flags, sockets } = readHelp(help)
  const missing = NEEDED.filter((name) => !flags.has(name))
  if (missing.length === 0) return { path, flags, sockets }
  throw new EngineError('provider_error', `${path} is no server of llama.cpp, or an old one: its --help ` +
    `does not name ${missing.join(', ')}. Set SVC_LLAMA_SERVER_BIN to a newer llama-server and restart svc`)
}

async function helpOf (path: string): Promise<string> {
  return await askHelp(path, path === DEFAULT_PROGRAM
    ? 'there is no llama-server in PATH: install llama.cpp, or set SVC_LLAMA_SERVER_BIN to the absolute ' +
    'path of its llama-server, and restart svc'
    : null)
}

/** What a program prints for --help. `absent` is said where it is not there. @throws EngineError */
export async function askHelp (path: string, absent: string | null): Promise<string> {
  try {
    const { stdout, stderr } = await promisify(execFile)(path, ['--help'],
      { timeout: HELP_MS, killSignal: 'SIGKILL', maxBuffer: HELP_BYTES })
    return stdout + stderr
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' && absent !== null) throw new EngineError('provider_error', absent)
    const why = message.replace(/\s+/g, ' ').slice(0, 300)
    throw new EngineError('provider_error', `${path} --help failed: ${why}. Run it by hand to see more`)
  }
}
