/** Finds llama.cpp's programs and reads their capabilities. */
import { execFile } from 'node:child_process'
import { access } from 'node:fs/promises'
import { dirname, isAbsolute, join } from 'node:path'
import { promisify } from 'node:util'
import { EngineError } from '../../../kernel/api/engine.js'

export interface Binary {
  path: string
  /** The program's options, such as `--model`, and draft methods, such as `draft-simple`. */
  flags: ReadonlySet<string>
  sockets: boolean
}

interface Kind {
  /** The spec option with the program's path, which the node has read from `variable` and checked. */
  option: string
  variable: string
  /** Names to try in PATH if no path is set. */
  names: readonly string[]
  /** Command line options that svc depends on; a program without them is refused. */
  needed: readonly string[]
  absent: string
  /** The two variable parts of the error message for an unsuitable program. */
  wrong: [what: string, instead: string]
}

const SERVER: Kind = {
  option: 'serverBinary',
  variable: 'SVC_LLAMA_SERVER_BIN',
  names: ['llama-server'],
  needed: ['--model', '--host', '--port', '--ctx-size', '--parallel', '--threads', '--api-key-file'],
  absent: 'there is no llama-server in PATH: install llama.cpp with `svc engine add llama.cpp`, or set ' +
    'SVC_LLAMA_SERVER_BIN to the absolute path of its llama-server and restart svc',
  wrong: ['a llama-server, or too old', 'a newer llama-server']
}
const DONOR: Kind = {
  option: 'donorBinary',
  variable: 'SVC_LLAMA_RPC_SERVER_BIN',
  // Newer builds name the program ggml-rpc-server.
  names: ['rpc-server', 'ggml-rpc-server'],
  needed: ['--host', '--port'],
  absent: 'there is no rpc-server or ggml-rpc-server beside llama-server or in PATH: install ' +
    'llama.cpp built with GGML_RPC, or set SVC_LLAMA_RPC_SERVER_BIN to the absolute path of its ' +
    'rpc-server, and restart svc',
  wrong: ['an rpc-server of llama.cpp', 'one']
}
const HELP_MS = 60_000
const HELP_BYTES = 4 * 2 ** 20

type Options = Readonly<Record<string, unknown>>

/** The path that the operator configured. @throws EngineError for a relative path */
function givenPath (options: Options, { option, variable }: Kind): string | undefined {
  const given = options[option]
  if (given === undefined || (typeof given === 'string' && isAbsolute(given))) return given
  const written = JSON.stringify(given)
  throw new EngineError('provider_error', `${variable} is ${written}, but must be an absolute path`)
}

/** Finds llama-server, as configured or else in PATH. @throws EngineError if there is none */
export const findServer = async (options: Options): Promise<Binary> =>
  await examined([givenPath(options, SERVER) ?? SERVER.names].flat(), SERVER)

/** Finds the rpc-server for a donor (donor.ts). @throws EngineError if there is none */
export const findDonor = async (options: Options): Promise<Binary> =>
  await examined(await donorPaths(options), DONOR)

/**
 * Paths to try for the rpc-server: the configured path, else beside the configured llama-server, else names
 * in PATH. @throws EngineError for a relative path
 */
export async function donorPaths (options: Options): Promise<readonly string[]> {
  const given = givenPath(options, DONOR)
  if (given !== undefined) return [given]
  const server = options[SERVER.option]
  if (typeof server !== 'string') return DONOR.names
  for (const beside of DONOR.names.map((name) => join(dirname(server), name))) {
    if (await access(beside).then(() => true, () => false)) return [beside]
  }
  return DONOR.names
}

/** Chooses the first program that exists. @throws EngineError if none exists, or if it lacks an option */
async function examined ([path, ...others]: readonly string[], kind: Kind): Promise<Binary> {
  if (path === undefined) throw new EngineError('provider_error', kind.absent)
  const help = await helpOf(path)
  if (help === null) return await examined(others, kind)
  const { flags, sockets } = readHelp(help)
  const missing = kind.needed.filter((name) => !flags.has(name))
  if (missing.length === 0) return { path, flags, sockets }
  const { wrong: [what, instead], variable } = kind
  throw new EngineError('provider_error', `${path} is not ${what}: its --help does not name ` +
    `${missing.join(', ')}. Set ${variable} to ${instead} and restart svc`)
}

/** A program's --help output; null if the program does not exist. @throws EngineError */
async function helpOf (path: string): Promise<string | null> {
  try {
    const { stdout, stderr } = await promisify(execFile)(path, ['--help'],
      { timeout: HELP_MS, killSignal: 'SIGKILL', maxBuffer: HELP_BYTES })
    return stdout + stderr
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' && !isAbsolute(path)) return null
    const why = message.replace(/\s+/g, ' ').slice(0, 300)
    throw new EngineError('provider_error', `${path} --help failed: ${why}. Run it by hand to see more`)
  }
}

/** Extracts the option names, and whether Unix sockets are supported, from --help output. Pure. */
export function readHelp (text: string): Omit<Binary, 'path'> {
  const flags = new Set(text.match(/--[a-z][a-z0-9-]+|\bdraft-[a-z0-9]+/g))
  return { flags, sockets: /unix socket/i.test(text) }
}
