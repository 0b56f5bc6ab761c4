/** Finds programs and reads their versions from the metadata of their environments, without running them. */
import { readdirSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { basename, delimiter, dirname, isAbsolute, join } from 'node:path'
import { BUNDLED, GENERIC, usualOrder } from './descriptions.js'
import type { Description } from './schema.js'

/** A program on this machine, or why it cannot be used; `version` is '' if unknown. */
export interface Found {
  name: string
  description: Description
  path: string
  /** The root of its Python environment; null for other programs. */
  root: string | null
  version: string
  problem: string | null
}

export interface Settings {
  collectives?: { interface: string }
  engine_order?: readonly string[]
  engines?: Readonly<Record<string, Partial<Description>>>
}

export interface Host {
  platform: NodeJS.Platform
  env: Readonly<Record<string, string | undefined>>
  uid: number
}

/** Limit on the first line of a script, in characters. */
const SHEBANG_CHARS = 256

/** All descriptions in the order of `engine_order`, those it does not list after them. */
export function descriptionsOf (
  { engine_order: order, engines = {} }: Settings, platform: string
): [string, Description][] {
  const names = new Set([...order ?? usualOrder(platform), ...Object.keys(BUNDLED), ...Object.keys(engines)])
  return [...names].filter((name) => Object.hasOwn(BUNDLED, name) || Object.hasOwn(engines, name))
    .map((name) => [name, { ...BUNDLED[name] ?? GENERIC, ...engines[name] }])
}

export const findPrograms = (settings: Settings, host: Host): Found[] =>
  descriptionsOf(settings, host.platform).map(([name, description]) => findOne(name, description, host))

function findOne (name: string, description: Description, { env, uid }: Host): Found {
  const { command, environment_path: environment, install, packages, broken = {} } = description
  const folders = environment === undefined ? (env['PATH'] ?? '').split(delimiter)
    : [join(environment, 'bin')]
  const path = isAbsolute(command) ? command
    : folders.filter(isAbsolute).map((folder) => join(folder, command)).find((one) => isFile(one))
  const found = { name, description, path: path ?? '', root: null, version: '' }
  const where = environment ?? 'PATH'
  const remedy = install === undefined ? '' : `: run \`${install}\`` + (environment === undefined
    ? `, or set plugins.openai-programs.engines.${name}.environment_path to its virtual environment` : '')
  const missing = { ...found, problem: `${command} is not in ${where}${remedy}` }
  if (path === undefined) return missing
  const problem = fileProblem(path, uid)
  if (problem !== null) return { ...found, problem: `${path} ${problem}` }
  const root = environment ?? rootOf(path)
  if (packages === undefined) return { ...found, root, problem: null }
  const versions = packages.flatMap((one) => {
    const version = root === null ? null : versionOf(root, one)
    return version === null ? [] : [{ one, version }]
  })
  const [first] = versions
  if (first === undefined) {
    return { ...missing, problem: `${packages[0]} is not installed in ${root ?? where}${remedy}` }
  }
  return { ...found, root, version: first.version, problem: broken[first.one] ?? null }
}

const attempt = <T>(call: () => T): T | null => {
  try { return call() } catch { return null }
}

const isFile = (path: string): boolean => attempt(() => statSync(path).isFile()) === true

/** Why a file must not run as an engine, by the rules for `SVC_<ENGINE>_SERVER_BIN`; null if it may. */
function fileProblem (path: string, uid: number): string | null {
  const facts = attempt(() => statSync(path))
  if (facts === null || !facts.isFile()) return 'does not exist'
  if ((facts.mode & 0o111) === 0) return 'is not executable'
  if (facts.uid !== 0 && facts.uid !== uid) return `belongs to user ${facts.uid}`
  return (facts.mode & 0o022) === 0 ? null : 'is writable by others'
}

/** The environment of a Python interpreter, or of a script that starts with the path of one. */
function rootOf (path: string): string | null {
  const isPython = (one: string): boolean => /^python[\d.]*$/.test(basename(one))
  if (isPython(path)) return dirname(dirname(path))
  const start = attempt(() => readFileSync(realpathSync(path)).toString('latin1', 0, SHEBANG_CHARS)) ?? ''
  const [, interpreter] = /^#!(\/\S+)/.exec(start) ?? []
  return interpreter !== undefined && isPython(interpreter) ? dirname(dirname(interpreter)) : null
}

const namesIn = (folder: string): string[] => attempt(() => readdirSync(folder)) ?? []

/** The version of a distribution in an environment; null if it is not installed there. */
function versionOf (root: string, distribution: string): string | null {
  const prefix = `${distribution.replaceAll('-', '_')}-`
  const libraries = ['lib', 'local/lib'].flatMap((lib) => namesIn(join(root, lib))
    .filter((name) => /^python3/.test(name))
    .flatMap((python) => ['site-packages', 'dist-packages'].map((name) => join(root, lib, python, name))))
  const names = libraries.flatMap(namesIn)
  const found = names.find((name) => name.toLowerCase().startsWith(prefix) && name.endsWith('.dist-info'))
  return found?.slice(prefix.length, -'.dist-info'.length) ?? null
}

export const wordsOf = ({ name, version }: Pick<Found, 'name' | 'version'>): string =>
  version === '' ? name : `${name} ${version}`
