/** The sandbox of a runner, set up by util-linux programs at the best level that the kernel offers. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, realpathSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { isMainThread } from 'node:worker_threads'
import { writeWhole } from '../../../kernel/index.js'
import { runnable } from '../machine/programs.js'
import { fileRules, filesFor, type Files } from './confine.js'
import { read } from './proc.js'

/**
 * Sandbox levels, best first: namespaces for files, processes and network; Landlock for files and network;
 * Landlock for files; no new privileges; no sandbox.
 */
const HOLDS = ['namespaces', 'network', 'files', 'privileges', 'none'] as const
export type SandboxLevel = typeof HOLDS[number]

/** Whether a runner uses the node's network; `loopback`: only where it can have no loopback of its own. */
export type Network = boolean | 'loopback'

export interface SandboxPaths {
  /** The node's folder for this runner, which is outside the sandbox. */
  scratch: string
  /** The working directory and only writable folder. */
  work: string
  files: () => Files
  network?: Network | undefined
}

const TOOLS = ['setpriv', 'unshare', 'mount', 'umount', 'pivot_root', 'prlimit'] as const
export type Tools = Partial<Record<typeof TOOLS[number], string>>

/** Finds the sandbox programs in PATH and, for each bin folder in it, in the sbin folder next to it. */
export function findTools (path: string = process.env['PATH'] ?? ''): Tools {
  if (process.platform !== 'linux') return {}
  const folders = path.split(delimiter).filter((dir) => dir.startsWith('/'))
    .flatMap((dir) => [dir, dir.replace(/\/bin$/, '/sbin')])
  return Object.fromEntries(TOOLS.flatMap((name) => {
    const found = folders.map((dir) => join(dir, name)).find(runnable)
    return found === undefined ? [] : [[name, found]]
  }))
}

/** Added to the runner's OOM score, so that the kernel kills a runner before the node. */
export const OOM_SCORE_ADJ = 500
/** Only on the main thread, because the kernel sends the signal when the spawning *thread* ends. */
const deathSignal = (): string[] => isMainThread ? ['--pdeathsig', 'KILL'] : []
const NO_PRIVILEGES = ['--no-new-privs', '--inh-caps=-all', '--ambient-caps=-all']
/** Needed only for root; other users cannot gain capabilities without new privileges. */
const NO_CAPABILITIES = '--bounding-set=-all'
const NO_NETWORK = ['--landlock-access', 'net']
const NO_SIGNALS = ['--landlock-access', 'scope']
/**
 * Limit that marks a runner sharing the node's network, and its descendants: no process can raise it again,
 * and engines do not use POSIX message queues.
 */
const MARK = ['--msgqueue=0:0', '--']

/** True if a runner at this level can connect to the machine's ports. */
export const sharesNetwork = (hold: SandboxLevel, network: Network = false): boolean =>
  network === true || (network === 'loopback' && hold === 'network') || hold === 'files' ||
  hold === 'privileges'

/** Wraps a command so that it runs at a sandbox level; null if a required program is missing. */
export function heldCommand (
  hold: SandboxLevel, tools: Tools, cell: SandboxPaths | undefined, command: readonly string[]
): string[] | null {
  const { setpriv, prlimit } = tools
  if (setpriv === undefined) return hold === 'none' ? [...command] : null
  if (hold === 'none' || cell === undefined) return [setpriv, ...deathSignal(), '--', ...command]
  const mark = prlimit !== undefined && sharesNetwork(hold, cell.network) ? [prlimit, ...MARK] : []
  if (hold === 'namespaces') return inNamespaces(tools, cell, [...mark, ...command])
  return [
    ...mark, setpriv, ...deathSignal(), ...NO_PRIVILEGES,
    ...process.getuid?.() === 0 ? [NO_CAPABILITIES] : [],
    ...hold === 'privileges' ? [] : fileRules(cell.files(), cell.work),
    ...hold !== 'network' ? [] : [...NO_SIGNALS, ...sharesNetwork(hold, cell.network) ? [] : NO_NETWORK],
    '--', ...command
  ]
}

/**
 * Starts three processes: `unshare`, whose pid the node gets; a shell as the first process of the namespace,
 * with which all other processes in the namespace end; and the runner.
 */
function inNamespaces (
  tools: Tools, { scratch, work, files, network: asked }: SandboxPaths, command: readonly string[]
): string[] | null {
  const { setpriv, unshare, mount, umount, pivot_root: pivot } = tools
  const network = asked === true
  if ([setpriv, unshare, mount, umount, pivot].includes(undefined)) return null
  const folder = join(scratch, 'sandbox')
  const [root, table, net, script] = ['root', 'fstab', 'net', 'start.sh'].map((name) => join(folder, name))
  mkdirSync(net!, { recursive: true, mode: 0o700 })
  writeWhole(table!, mountTable(root!, work, files(), network ? undefined : net!))
  writeWhole(script!, [
    'set -e',
    `echo ${OOM_SCORE_ADJ} > /proc/self/oom_score_adj`,
    '# The runner would have capabilities in a further namespace.',
    'echo 0 > /proc/sys/user/max_user_namespaces || :',
    `${quoted(mount!)} -n -a -T ${quoted(table!)}`,
    ...network ? [] : ['# The loopback of the new network.', `echo 1 > ${quoted(net!)}/class/net/lo/flags`],
    `cd ${quoted(root!)}`,
    `${quoted(pivot!)} . .old`,
    `${quoted(umount!)} -n -l .old`,
    `cd ${quoted(work)}`,
    `${quoted(setpriv!)} ${[...NO_PRIVILEGES, NO_CAPABILITIES].join(' ')} -- "$@"`,
    'exit $?'
  ].join('\n') + '\n')
  // Entering a user namespace clears the death signal, so set it afterwards.
  return [unshare!, '--user', '--map-root-user', '--', setpriv!, ...deathSignal(), '--',
    unshare!, '--mount', '--pid', '--ipc', ...network ? [] : ['--net'], '--fork', '--kill-child', '--',
    '/bin/sh', script!, ...command]
}

const quoted = (text: string): string => `'${text.replaceAll('\'', '\'\\\'\'')}'`

const SHARED_MEMORY = '256m'

/** The runner's file system as mount table lines. Creates the mount points below `root`. */
function mountTable (root: string, work: string, { read, write }: Files, net?: string): string {
  const here = mountsHere()
  const line = (source: string, at: string, type: string, options: string): string =>
    `${[source, at].map(escaped).join(' ')} ${type} ${options} 0 0`
  const flagsAt = (path: string): string => [...here].filter(([point]) => within(path, point))
    .sort(([a], [b]) => b.length - a.length)[0]?.[1].map((flag) => `,${flag}`).join('') ?? ''
  const bound = (path: string, how: string): string[] => {
    if (!place(root, path)) return []
    // `mount` applies the options of a bind only to its top mount, so each mount below gets its own line.
    const below = [...here.keys()].filter((point) => point !== path && within(point, path))
    return [line(path, root + path, 'none', `rbind${how}${flagsAt(path)}`), ...below.map((point) =>
      line('none', root + point, 'none', `remount,bind${how}${flagsAt(point)}`))]
  }
  for (const name of ['proc', 'dev/shm', '.old']) mkdirSync(join(root, name), { recursive: true })
  const inShared = (path: string): boolean => within(path, '/dev/shm')
  return [
    line(root, root, 'none', `bind,ro${flagsAt(root)}`),
    line('proc', `${root}/proc`, 'proc', 'ro,nosuid,nodev,noexec'),
    // A home below /dev/shm needs mount points there, which a tmpfs would hide.
    ...[work, ...read].some(inShared)
      ? [] : [line('tmpfs', `${root}/dev/shm`, 'tmpfs', `nosuid,nodev,mode=1777,size=${SHARED_MEMORY}`)],
    ...net === undefined ? [] : [line('sysfs', net, 'sysfs', 'nosuid,nodev,noexec')],
    ...outermost(read).concat(write.filter((path) => !inShared(path))).flatMap((path) => bound(path, ',ro')),
    ...bound(work, '')
  ].join('\n') + '\n'
}

const within = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder === '/' ? '/' : `${folder}/`)

const outermost = (paths: readonly string[]): string[] =>
  paths.filter((path) => !paths.some((folder) => folder !== path && within(path, folder)))

/**
 * Creates the mount point for a path. For a file behind a symbolic link, creates a link and returns false:
 * the real folder is mounted too, and a program searches for its libraries there.
 */
function place (root: string, path: string): boolean {
  const isFolder = statSync(path).isDirectory()
  mkdirSync(root + (isFolder ? path : dirname(path)), { recursive: true })
  const target = realpathSync(path)
  if (isFolder) return true
  rmSync(root + path, { force: true })
  if (target === path) writeFileSync(root + path, '')
  else symlinkSync(target, root + path)
  return target === path
}

/** Mount points of this process with their flags, which a user namespace must repeat. */
function mountsHere (): Map<string, string[]> {
  return new Map(readFileSync('/proc/self/mountinfo', 'utf8').trimEnd().split('\n').map((line) => {
    const [, , , , point = '', options = ''] = line.split(' ')
    const path = point.replace(/\\(\d{3})/g, (_, digits: string) => String.fromCharCode(parseInt(digits, 8)))
    return [path, options.split(',').filter((option) => /^(nosuid|nodev|noexec)$/.test(option))]
  }))
}

const escaped = (path: string): string =>
  path.replace(/[\s\\#]/g, (sign) => `\\${sign.charCodeAt(0).toString(8).padStart(3, '0')}`)

const CHECK_MS = 5_000
/** Milliseconds until a level below the best is probed again: an operator may have changed the machine. */
const AGAIN_MS = 60_000
interface Found { hold: SandboxLevel, tools: Tools, at: number }
const known = new Map<string, Found>()

/**
 * Probes for the best sandbox level at `now` (ms). Without `cell`, checks only whether setpriv can end a
 * runner together with the node. Caches the result unless a probe timed out or was killed.
 */
export function probeSandboxLevel (
  cell: SandboxPaths | undefined, now: number, path: string = process.env['PATH'] ?? ''
): Found {
  const levels: readonly SandboxLevel[] = cell === undefined ? ['none'] : HOLDS
  const key = `${levels.length} ${path}`
  const last = known.get(key)
  if (last !== undefined && (last.hold === levels[0] || now - last.at < AGAIN_MS)) return last
  const tools = findTools(path)
  let sure = true
  const works = (hold: SandboxLevel): boolean => {
    const command = heldCommand(hold, tools, cell && { ...cell, network: false }, [process.execPath, '-v'])
    if (command === null) return false
    const { status } = spawnSync(command[0]!, command.slice(1),
      { stdio: 'ignore', env: {}, cwd: cell?.work, timeout: CHECK_MS })
    sure &&= status !== null
    return status === 0
  }
  const hold = levels.find(works)
  const found: Found = hold === undefined ? { hold: 'none', tools: {}, at: now } : { hold, tools, at: now }
  if (sure) known.set(key, found)
  return found
}

const STATE: Readonly<Record<SandboxLevel, string>> = {
  namespaces: '',
  network: 'are limited to their files and have no network (Landlock), but see other processes',
  files: 'are limited to their files (Landlock), but reach the network and other processes',
  privileges: 'get no new privileges, but may read all files that the node may read, and reach the network',
  none: 'have all rights of the node'
}
/** Kernel settings that forbid user namespaces: name, value that forbids, value that allows. */
const SETTINGS = [
  ['kernel.apparmor_restrict_unprivileged_userns', '1', '0'],
  ['kernel.unprivileged_userns_clone', '0', '1'],
  ['user.max_user_namespaces', '0', '10000']
] as const

/** Why the sandbox on this machine is incomplete, and the command to improve it; null at the best level. */
export function findSandboxProblem (folder: string, now: number): string | null {
  const scratch = join(folder, 'probe')
  const work = join(scratch, 'work')
  const needs = { home: folder, scripts: [], model: [], options: {}, env: process.env }
  try {
    mkdirSync(work, { recursive: true, mode: 0o700 })
    const { hold, tools } = probeSandboxLevel({ scratch, work, files: () => filesFor(needs) }, now)
    rmSync(scratch, { recursive: true, force: true })
    return hold === HOLDS[0] ? null : `Here they ${STATE[hold]}: ${missing(tools, process.platform)}`
  } catch (error) {
    return `The sandbox could not be tested: ${(error as Error).message}`
  }
}

export function missing (tools: Tools, platform: string, setting = read): string {
  if (platform !== 'linux') return `${platform} has no sandbox for them; run untrusted models on Linux`
  const absent = TOOLS.filter((name) => tools[name] === undefined)
  if (absent.length > 0) return `PATH has no ${absent.join(', ')}: \`sudo apt install util-linux mount\``
  const forbids = ([name, value]: typeof SETTINGS[number]): boolean =>
    setting(`/proc/sys/${name.replaceAll('.', '/')}`)?.trim() === value
  const [name, value, better] = SETTINGS.find(forbids) ?? []
  return name === undefined
    ? 'this system forbids namespaces, as containers do: use an image with setpriv of util-linux 2.40'
    : `${name} is ${value}: \`sudo sysctl -w ${name}=${better}\`, and the same in /etc/sysctl.d`
}
