/** llama.cpp's programs: where they are looked for, and what they can do. */
import { execFile } from 'node:child_process'
import { access } from 'node:fs/promises'
import { dirname, isAbsolute, join } from 'node:path'
import { promisify } from 'node:util'
import { EngineError } from '../../../kernel/api/engine.js'

export interface Binary {
  path: string
  /** Names of its options, as `--model`, and of the ways in which drafters work, as `draft-simple`. */
  flags: ReadonlySet<string>
  sockets: boolean
}

/** A kind of program, and what is said where it is not found. */
interface Kind {
  /** The option of a spec with the path that the operator gave in `variable`. The node has checked it. */
  option: string
  variable: string
  /** Looked for in PATH where no path was given. */
  names: readonly string[]
  /** Options without which it is of no use. */
  needed: readonly string[]
  absent: string
  /** What a program without them is not, and what to set instead. */
  wrong: [what: string, instead: string]
}

const SERVER: Kind = {
  option: 'serverBinary',
  variable: 'SVC_LLAMA_SERVER_BIN',
  names: ['llama-server'],
  needed: ['--model', '--host', '--port', '--ctx-size', '--parallel', '--threads', '--api-key-file'],
  absent: 'there is no llama-server in PATH: bring llama.cpp with `svc engine add llama.cpp`, or set ' +
    'SVC_LLAMA_SERVER_BIN to the absolute path of its llama-server and restart svc',
  wrong: ['server of llama.cpp, or an old one', 'a newer llama-server']
}
const DONOR: Kind = {
  option: 'donorBinary',
  variable: 'SVC_LLAMA_RPC_SERVER_BIN',
  // Newer builds have the second name.
  names: ['rpc-server', 'ggml-rpc-server'],
  needed: ['--host', '--port'],
  absent: 'there is no rpc-server or ggml-rpc-server beside llama-server or in PATH: install ' +
    'llama.cpp built with GGML_RPC, or set SVC_LLAMA_RPC_SERVER_BIN to the absolute path of its ' +
    'rpc-server, and restart svc',
  wrong: ['rpc-server of llama.cpp', 'one']
}
const HELP_MS = 60_000
const HELP_BYTES = 4 * 2 ** 20

type Options = Readonly<Record<string, unknown>>

/** The path that the operator gave. @throws EngineError for one that is not absolute */
function givenPath (options: Options, { option, variable }: Kind): string | undefined {
  const given = options[option]
  if (given === undefined || (typeof given === 'string' && isAbsolute(given))) return given
  const written = JSON.stringify(given)
  throw new EngineError('provider_error', `${variable} is ${written}: it takes an absolute path`)
}

/** llama.cpp's server: the one the operator named, else the one in PATH. @throws EngineError for none */
export const findServer = async (options: Options): Promise<Binary> =>
  await examined([givenPath(options, SERVER) ?? SERVER.names].flat(), SERVER)

/** The program that serves as a donor, see donor.ts. @throws EngineError for none */
export const findDonor = async (options: Options): Promise<Binary> =>
  await examined(await donorPaths(options), DONOR)

/**
 * The programs to try in turn as donors: what the operator named; else the one beside the llama-server that
 * was named; else those in PATH. @throws EngineError for a path that is not absolute
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

/** The first program that is there, and its options. @throws EngineError for none, or one of another kind */
async function examined ([path, ...others]: readonly string[], kind: Kind): Promise<Binary> {
  if (path === undefined) throw new EngineError('provider_error', kind.absent)
  const help = await helpOf(path)
  if (help === null) return await examined(others, kind)
  const { flags, sockets } = readHelp(help)
  const missing = kind.needed.filter((name) => !flags.has(name))
  if (missing.length === 0) return { path, flags, sockets }
  const { wrong: [what, instead], variable } = kind
  throw new EngineError('provider_error', `${path} is no ${what}: its --help does not name ` +
    `${missing.join(', ')}. Set ${variable} to ${instead} and restart svc`)
}

/** What a program prints for --help; null where none of that name is in PATH. @throws EngineError */
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

/** Reads the list of options a program prints. Pure. */
export function readHelp (text: string): Omit<Binary, 'path'> {
  const flags = new Set(text.match(/--[a-z][a-z0-9-]+|\bdraft-[a-z0-9]+/g))
  return { flags, sockets: /unix socket/i.test(text) }
}
