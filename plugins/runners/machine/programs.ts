import { execFile } from 'node:child_process'
import { accessSync, constants, readdirSync } from 'node:fs'
import { delimiter, isAbsolute, join } from 'node:path'
import { promisify } from 'node:util'
import { parseJson, type LibraryDecl, type ModelCard, type ProgramDecl } from '../../../kernel/index.js'
import { runsOn } from '../cards/backends.js'
import { fieldsOf } from '../language/json.js'
import { attempt, read } from '../process/proc.js'
import type { RuntimeFiles } from './runtimes.js'

/** A build below `<home>/engines`, as described by its `build.json`. */
export interface Build {
  /** Name of the build's folder, e.g. `b11146-cpu`. */
  name: string
  folder: string
  tag: string
  backend: string
  /** Time at which the build was added or last selected; the build with the latest time is used. */
  usedSince: string
  /** Digests of the build's archives, each prefixed with `sha256:`. */
  digests: string[]
  /** Devices besides the CPU, as the build listed them when it was added. */
  devices: string[]
}

/** File that describes a build; a folder without this file is not a build. */
export const BUILD_FILE = 'build.json'
const FORMAT = 1

export const buildsFolder = (home: string, builds: string): string => join(home, 'engines', builds)

export function buildsOf (home: string, builds: string): Build[] {
  const folder = buildsFolder(home, builds)
  return namesIn(folder).flatMap((name) => readBuild(join(folder, name), name) ?? [])
    .sort((a, b) => b.usedSince.localeCompare(a.usedSince) || a.name.localeCompare(b.name))
}

export function buildText ({ tag, backend, usedSince, digests, devices }: Build): string {
  return `${JSON.stringify({ format: FORMAT, tag, backend, usedSince, digests, devices }, null, 2)}\n`
}

const namesIn = (folder: string): string[] =>
  attempt(() => readdirSync(folder), []).filter((name) => !name.startsWith('.'))

function readBuild (folder: string, name: string): Build | null {
  const { format, tag, backend, usedSince, digests, devices } =
    fieldsOf(parseJson(read(join(folder, BUILD_FILE)) ?? '')) as Partial<Build> & { format?: unknown }
  const areStrings = [tag, backend, usedSince].every((word) => typeof word === 'string')
  if (format !== FORMAT || !areStrings || !Array.isArray(digests) || !Array.isArray(devices)) return null
  return {
    name, folder, tag: String(tag), backend: String(backend), usedSince: String(usedSince), digests, devices
  }
}

export type Program = { from: 'path', path: string } | { from: 'build', path: string, build: Build }

export interface Library { from: 'library', library: LibraryDecl }

/** The library if its package is installed, otherwise the reason why it cannot be used. */
export function findLibrary (
  { platform, arch, hasPackage }: Pick<RuntimeFiles, 'platform' | 'arch' | 'hasPackage'>, library: LibraryDecl
): Library | string {
  const host = `${platform}-${arch}`
  const name = library.packages[host]
  if (name === undefined) return `${library.name} is not built for ${host}`
  const gpu = library.gpus?.[host]
  const backends = gpu === undefined ? library.backends : [gpu, ...library.backends]
  return hasPackage(name) ? { from: 'library', library: { ...library, backends } }
    : `the package ${name} is not installed: it needs glibc, and an install without --omit=optional`
}

/** Why the library cannot run a model; null if it can. */
export function whyLibraryCannot (
  { name, backends, without }: LibraryDecl, card: Pick<ModelCard, 'backends' | 'files'>
): string | null {
  if (!backends.some((one) => runsOn(card, one))) {
    return `${name} runs on ${backends.join(', ')}, the model on ${card.backends.join(', ') || 'nothing'}`
  }
  const role = Object.keys(without).find((one) => card.files.some((file) => file.role === one))
  return role === undefined ? null : `${name} ${without[role]}`
}

interface Place { home: string, env: Readonly<Record<string, string | undefined>> }

/** The program in PATH, otherwise the program of the selected build; null if there is neither. */
export function findProgram ({ home, env }: Place, { name, builds }: ProgramDecl): Program | null {
  const found = (env['PATH'] ?? '').split(delimiter).filter((folder) => isAbsolute(folder))
    .map((folder) => join(folder, name)).find(runnable)
  if (found !== undefined) return { from: 'path', path: found }
  const [build] = buildsOf(home, builds)
  return build === undefined ? null : { from: 'build', path: join(build.folder, name), build }
}

/** Time limit in ms for a program run; a large GPU library loads slowly from a slow disk. */
const OUTPUT_MS = 60_000
const OUTPUT_ENV = ['PATH', 'HOME', 'LD_LIBRARY_PATH', 'CUDA_VISIBLE_DEVICES']

/** Runs a program with one flag and returns its output. Throws if it fails or takes more than a minute. */
export async function outputOf (
  path: string, flag: string, env: Place['env'], signal?: AbortSignal
): Promise<string> {
  const { stdout, stderr } = await promisify(execFile)(path, [flag], {
    timeout: OUTPUT_MS, killSignal: 'SIGKILL', ...signal === undefined ? {} : { signal },
    env: Object.fromEntries(OUTPUT_ENV.flatMap((name) => env[name] === undefined ? [] : [[name, env[name]]]))
  })
  return `${stdout}\n${stderr}`
}

/** The devices that `llama-server --list-devices` prints: `CUDA0: NVIDIA H200 (143155 MiB, …)`. Pure. */
export function readDevices (text: string): string[] | null {
  const [, list] = text.split(/^Available devices:$/m)
  return list === undefined ? null
    : [...list.matchAll(/^ {2}([A-Za-z]+\d*: .{1,200})$/gm)].map(([, device]) => device!).slice(0, 64)
}

/** True if one of the devices belongs to a backend; names are CUDA0, ROCm0, Vulkan1, MTL0 for Metal. */
export const listsBackend = (devices: readonly string[], backend: string): boolean =>
  devices.some((device) => device.toLowerCase().replace(/^mtl/, 'metal').startsWith(backend))

/** True if the file exists and this user may run it. */
export const runnable = (path: string): boolean => attempt(() => {
  accessSync(path, constants.X_OK)
  return true
}, false)
