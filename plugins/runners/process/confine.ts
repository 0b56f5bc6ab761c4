import { existsSync, readdirSync, realpathSync } from 'node:fs'
import { delimiter, dirname, isAbsolute, join, sep } from 'node:path'

/** How far the system holds a runner: to the files it needs, at least to the rights it has, or not at all. */
export type Hold = 'files' | 'privileges' | 'none'

/**
 * What Landlock is asked to watch. Executing, listing and the ioctl of devices are left alone: secrets are in
 * files, and GPU drivers need the rest.
 */
const WATCHED = ['read-file', 'write-file', 'truncate', 'make-reg', 'make-dir', 'make-sym', 'make-sock',
  'make-fifo', 'remove-file', 'remove-dir'].join(',')
/** GPUs and shared memory. */
const DEVICES = '/dev'
/** Folders of the root with programs and settings of the system, and without files of people. */
const SYSTEM = /^(bin|dev|etc|gnu|lib\w*|nix|opt|proc|run|sbin|snap|sys|usr)$/
/** Folders of the home in which no model, engine or plugin is. */
const NOT_READ = new Set(['state', 'run', 'events', 'traces', 'logs'])
const SCRIPT = /\.[cm]?js$/

/** Arguments of setpriv for a runner that reads these files and no others, and writes in its own folder. */
export function fileRules (read: readonly string[], scratch: string): string[] {
  const rule = (rights: string, path: string): string[] =>
    ['--landlock-rule', `path-beneath:${rights}:${path}`]
  return ['--landlock-access', `fs:${WATCHED}`,
    ...[scratch, DEVICES].flatMap((path) => rule(WATCHED, path)),
    ...read.filter((path) => existsSync(path)).flatMap((path) => rule('read-file', path))]
}

/** What a runner works with. */
export interface Needs {
  /** The node's home; its key, tokens and state are what must not be read. */
  home: string
  /** Scripts that it loads, as absolute paths. */
  scripts: readonly string[]
  /** Files and folders of the model. */
  model: readonly string[]
  /** Options of the engine; a path among them, such as a program, is read with what lies beside it. */
  options: Readonly<Record<string, unknown>>
  env: Readonly<Record<string, string | undefined>>
}

/**
 * Everything a runner may read: the system, svc and its packages, the model, the engine. Landlock knows no
 * "all but", so where one of these holds the home, what lies beside the home is listed instead.
 */
export function readable ({ home, scripts, model, options, env }: Needs): string[] {
  const own = real(home)
  const programs = Object.values(options)
    .filter((value): value is string => typeof value === 'string' && isAbsolute(value))
  const searched = ['PATH', 'LD_LIBRARY_PATH'].flatMap((name) => (env[name] ?? '').split(delimiter))
    .filter((folder) => isAbsolute(folder))
  const wanted = [
    ...entries('/').filter((name) => SYSTEM.test(name)).map((name) => `/${name}`),
    ...[process.execPath, ...programs].flatMap((file) => beside(dirname(real(file)))),
    ...searched.flatMap(beside),
    ...scripts.flatMap(packagesOf),
    ...model.map(real)
  ]
  const all = wanted.flatMap((path) => outside(real(path), own))
  return [...new Set([...all, ...inHome(own)])]
}

/** A folder with programs, and where their libraries are. */
const beside = (folder: string): string[] => [folder, join(dirname(folder), 'lib')]

/** The package a script belongs to, or else its folder, and the packages it finds from there. */
function packagesOf (script: string): string[] {
  const found: string[] = []
  let own: string | undefined
  for (let folder = dirname(real(script)); folder !== dirname(folder); folder = dirname(folder)) {
    if (own === undefined && existsSync(join(folder, 'package.json'))) own = folder
    found.push(join(folder, 'node_modules'))
  }
  return [own ?? dirname(real(script)), ...found.filter((folder) => existsSync(folder))]
}

/** A path, or what lies in it apart from the home. */
function outside (path: string, home: string): string[] {
  if (path === home) return []
  if (!home.startsWith(path + sep)) return [path]
  return entries(path).flatMap((name) => outside(join(path, name), home))
}

/** Models, engines and plugins that lie in the home. */
function inHome (home: string): string[] {
  return entries(home, (name, isFolder) => isFolder ? !NOT_READ.has(name) : SCRIPT.test(name))
    .map((name) => join(home, name))
}

function entries (folder: string, fits: (name: string, isFolder: boolean) => boolean = () => true): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => fits(entry.name, entry.isDirectory())).map(({ name }) => name)
  } catch {
    return []
  }
}

function real (path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}
