import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs'
import { delimiter, dirname, isAbsolute, join, sep } from 'node:path'
import { packageRoot } from '../../../kernel/index.js'
import { attempt } from './proc.js'

/** Rights that Landlock restricts. Executing and listing stay allowed, because secrets are file contents. */
const OF_FILES = 'read-file,write-file,truncate'
const WATCHED = `${OF_FILES},make-reg,make-dir,make-sym,make-sock,make-fifo,remove-file,remove-dir`
/** Root folders with the system's programs and settings but no user files. */
const SYSTEM = /^(bin|etc|gnu|lib\w*|nix|opt|sbin|snap|sys|usr)$/
/** Folders of GPU drivers in /run, which also has secrets and sockets of services. */
const RUN = /^(opengl-driver|current-system|nvidia|udev$)/
/** Harmless devices, GPUs and other accelerators; not disks, which root may read. */
const DEVICES = RegExp('^(null|zero|full|u?random|shm|nvidia.*|nvhost.*|nvmap|nvgpu|nvsciipc|dri|kfd|dxg|' +
  'accel.*|mali\\d*|galcore|davinci.*|hisi_hdc|apex_\\d+|hailo\\d+|ipu.*|rknpu.*)$')
const SCRIPT = /\.[cm]?js$/

/** Paths that a runner may read, and devices that it may also write to. */
export interface Files { read: readonly string[], write: readonly string[] }

/** setpriv arguments that limit a runner to these files and to writes in its work folder. */
export function fileRules ({ read, write }: Files, work: string): string[] {
  const rule = (rights: string, path: string): string[] =>
    ['--landlock-rule', `path-beneath:${rights}:${path}`]
  return ['--landlock-access', `fs:${WATCHED}`,
    ...[work, ...write].flatMap((path) => rule(isFolder(path) ? WATCHED : OF_FILES, path)),
    ...['/proc', ...read].flatMap((path) => rule('read-file', path))]
}

export interface SandboxNeeds {
  /** The node's home, which holds its key, tokens and state. */
  home: string
  scripts: readonly string[]
  model: readonly string[]
  /** Engine options; if an option is a path, such as a program, its neighbouring files are readable too. */
  options: Readonly<Record<string, unknown>>
  env: Readonly<Record<string, string | undefined>>
}

/**
 * All files that a runner may use: the system, svc and its packages, the model, the engine. A folder that
 * contains the home is replaced by its contents except the home. Within the home only the model, the engine
 * and the plugin's code are included.
 */
export function filesFor ({ home, scripts, model, options, env }: SandboxNeeds): Files {
  const own = real(home)
  const programs = Object.values(options)
    .filter((value): value is string => typeof value === 'string' && isAbsolute(value))
  const searched = ['PATH', 'LD_LIBRARY_PATH'].flatMap((name) => (env[name] ?? '').split(delimiter))
    .filter((folder) => isAbsolute(folder))
  const wanted = [
    ...below('/', SYSTEM), ...below('/run', RUN),
    ...[process.execPath, ...programs].flatMap((file) => [file, ...withLibraries(dirname(real(file)))]),
    ...searched.flatMap(withLibraries),
    ...scripts.flatMap(packagesOf),
    ...scripts.some((script) => dirname(real(script)) === own) ? below(own, SCRIPT) : [],
    ...model
  ]
  const all = (paths: readonly string[]): string[] =>
    [...new Set(paths.flatMap((path) => outside(path, own)))].filter((path) => existsSync(path))
  return { read: all(wanted), write: all(below('/dev', DEVICES)) }
}

const withLibraries = (folder: string): string[] => [folder, join(dirname(folder), 'lib')]

/** The package of a script (or its folder if it has none), and the packages that the script can import. */
function packagesOf (script: string): string[] {
  const found: string[] = []
  let own: string | undefined
  for (let folder = dirname(real(script)); folder !== dirname(folder); folder = dirname(folder)) {
    if (own === undefined && existsSync(join(folder, 'package.json'))) own = folder
    found.push(join(folder, 'node_modules'))
  }
  const folder = dirname(real(script))
  // Only svc's built code, because a home may be inside a checkout of svc.
  const code = own === packageRoot() ? ['dist', 'package.json'].map((name) => join(own!, name)) : []
  return [script, ...code.length > 0 ? [...code, folder] : [own ?? folder], ...found]
}

/** Returns a path and its real path. A folder around the home is replaced by its contents except the home. */
function outside (path: string, home: string): string[] {
  const target = real(path)
  if (target === home) return []
  if (!home.startsWith(target + sep)) return [...new Set([path, target])]
  return below(target, /^/).flatMap((found) => outside(found, home))
}

const below = (folder: string, names: RegExp): string[] =>
  attempt(() => readdirSync(folder), []).filter((name) => names.test(name)).map((name) => join(folder, name))

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true

const real = (path: string): string => attempt(() => realpathSync(path), path)
