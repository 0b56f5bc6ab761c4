/**
 * How a runner is held to what it needs: by programs of util-linux, as far as these and the kernel can do that.
 * The levels are tried from the best to the least.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { isMainThread } from 'node:worker_threads'
import { runnable } from '../machine/programs.js'
import { fileRules, filesFor } from './confine.js'
import type { Files } from './confine.js'
import { read } from './proc.js'

/**
 * From the best on: in namespaces of its own it sees its files and processes, and no network; Landlock holds it
 * to its files without network, or to its files; it gets no new rights; it may do what the node may.
 */
const HOLDS = ['namespaces', 'network', 'files', 'privileges', 'none'] as const
export type Hold = typeof HOLDS[number]

/** What a runner is held to. */
export interface Cell {
  /** Folder of the node for this runner, which does not see it. */
  scratch: string
  /** Where the runner works and writes. */
  work: string
  files: () => Files
  /** It needs the network of the node. */
  network?: boolean | undefined
}

const TOOLS = ['setpriv', 'unshare', 'mount', 'umount', 'pivot_root', 'prlimit'] as const
export type Tools = Partial<Record<typeof TOOLS[number], string>>

/** The programs there are, in the folders of PATH and those for administrators beside them. */
export function findTools (path: string = process.env['PATH'] ?? ''): Tools {
  if (process.platform !== 'linux') return {}
  const folders = path.split(delimiter).filter((dir) => dir.startsWith('/'))
    .flatMap((dir) => [dir, dir.replace(/\/bin$/, '/sbin')])
  return Object.fromEntries(TOOLS.flatMap((name) => {
    const found = folders.map((dir) => join(dir, name)).find(runnable)
    return found === undefined ? [] : [[name, found]]
  }))
}

/** Added to the runner's score, so that the kernel ends a runner before the node when memory is out. */
export const OOM_SCORE_ADJ = 500
/** The kernel ends it with the node. It goes by the thread that started it, so only the main one may ask. */
const deathSignal = (): string[] => isMainThread ? ['--pdeathsig', 'KILL'] : []
const NO_RIGHTS = ['--no-new-privs', '--inh-caps=-all', '--ambient-caps=-all']
/** Only root may give these up; others cannot use them once there are no new rights. */
const NO_CAPABILITIES = '--bounding-set=-all'
/** All that the kernel can keep from it, without an exception. */
const NO_NETWORK = ['--landlock-access', 'net']
const NO_SIGNALS = ['--landlock-access', 'scope']
/**
 * Marks what shares the node's network: a limit that nothing else has set to 0 and that no process can raise
 * again, nor what it starts. No engine uses POSIX message queues.
 */
const MARK = ['--msgqueue=0:0', '--']

/** Whether a runner at a level reaches what listens on this machine. */
export const sharesNetwork = (hold: Hold, network = false): boolean =>
  network || hold === 'files' || hold === 'privileges'

/** The command that runs another one at a level; null where a program for it is missing. */
export function heldCommand (
  hold: Hold, tools: Tools, cell: Cell | undefined, command: readonly string[]
): string[] | null {
  const { setpriv, prlimit } = tools
  if (setpriv === undefined) return hold === 'none' ? [...command] : null
  const start = [setpriv, ...deathSignal()]
  if (hold === 'none' || cell === undefined) return isMainThread ? [...start, '--', ...command] : [...command]
  const mark = prlimit === undefined || !sharesNetwork(hold, cell.network) ? [] : [prlimit, ...MARK]
  if (hold === 'namespaces') {
    return inNamespaces(tools, cell, [...mark, ...command])
  }
  const root = process.getuid?.() === 0 ? [NO_CAPABILITIES] : []
  const files = hold === 'privileges' ? [] : fileRules(cell.files(), cell.work)
  const network = hold === 'network' ? [...NO_SIGNALS, ...cell.network === true ? [] : NO_NETWORK] : []
  return [...mark, ...start, ...NO_RIGHTS, ...root, ...files, ...network, '--', ...command]
}

/**
 * Three processes: `unshare`, which the node sees and ends; a shell as the first process of the new namespace,
 * with which all others there end; and the runner.
 */
function inNamespaces (
  tools: Tools, { scratch, work, files, network = false }: Cell, command: readonly string[]
): string[] | null {
  const { setpriv, unshare, mount, umount, pivot_root: pivot } = tools
  if ([setpriv, unshare, mount, umount, pivot].includes(undefined)) return null
  const folder = join(scratch, 'sandbox')
  const [root, table, net, script] = ['root', 'fstab', 'net', 'start.sh'].map((name) => join(folder, name))
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(net!, { recursive: true, mode: 0o700 })
  writeFileSync(table!, mountTable(root!, work, files(), network ? undefined : net!), { mode: 0o600 })
  const rights = [...NO_RIGHTS, NO_CAPABILITIES].join(' ')
  writeFileSync(script!, [
    'set -e',
    `echo ${OOM_SCORE_ADJ} > /proc/self/oom_score_adj`,
    '# Further namespaces would give it capabilities in them.',
    'echo 0 > /proc/sys/user/max_user_namespaces || :',
    `${quoted(mount!)} -n -a -T ${quoted(table!)}`,
    ...network ? [] : ['# Its own loopback.', `echo 1 > ${quoted(net!)}/class/net/lo/flags`],
    `cd ${quoted(root!)}`,
    `${quoted(pivot!)} . .old`,
    `${quoted(umount!)} -n -l .old`,
    `cd ${quoted(work)}`,
    `${quoted(setpriv!)} ${rights} -- "$@"`,
    'exit $?'
  ].join('\n') + '\n', { mode: 0o600 })
  // The death signal is lost where a process enters a user namespace.
  return [unshare!, '--user', '--map-root-user', '--', setpriv!, ...deathSignal(), '--',
    unshare!, '--mount', '--pid', '--ipc', ...network ? [] : ['--net'], '--fork', '--kill-child', '--',
    '/bin/sh', script!, ...command]
}
const quoted = (text: string): string => `'${text.replaceAll('\'', '\'\\\'\'')}'`

/** Bytes that programs may share between their processes. */
const SHARED_MEMORY = '256m'

/** What is mounted where for a runner, as a table of `mount`; makes the folders and files to mount upon. */
function mountTable (root: string, work: string, { read, write }: Files, net?: string): string {
  const here = mountsHere()
  const line = (what: string, at: string, type: string, options: string): string =>
    `${[what, at].map(escaped).join(' ')} ${type} ${options} 0 0`
  const flagsAt = (path: string): string => [...here].filter(([point]) => within(path, point))
    .sort(([a], [b]) => b.length - a.length)[0]?.[1].map((flag) => `,${flag}`).join('') ?? ''
  const bound = (path: string, how: string): string[] => {
    place(root, path)
    return [
      line(path, root + path, 'none', `rbind${how}${flagsAt(path)}`),
      // What is mounted below comes along as it is.
      ...[...here.keys()].filter((point) => point !== path && within(point, path)).map((point) =>
        line('none', root + point, 'none', `remount,bind${how}${flagsAt(point)}`))
    ]
  }
  for (const name of ['proc', 'dev/shm', '.old']) mkdirSync(join(root, name), { recursive: true, mode: 0o755 })
  const devices = write.filter((path) => !within(path, '/dev/shm'))
  // What is needed may lie there.
  const sharing = [work, ...read].every((path) => !within(path, '/dev/shm'))
  return [
    line(root, root, 'none', `bind,ro${flagsAt(root)}`),
    line('proc', `${root}/proc`, 'proc', 'ro,nosuid,nodev,noexec'),
    ...!sharing ? [] : [line('tmpfs', `${root}/dev/shm`, 'tmpfs', `nosuid,nodev,mode=1777,size=${SHARED_MEMORY}`)],
    ...net === undefined ? [] : [line('sysfs', net, 'sysfs', 'nosuid,nodev,noexec')],
    ...[...outermost(read), ...devices].flatMap((path) => bound(path, ',ro')),
    ...bound(work, '')
  ].join('\n') + '\n'
}

const within = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder === '/' ? '/' : `${folder}/`)

/** The paths that lie in no other one of them. */
const outermost = (paths: readonly string[]): string[] => {
  const kept: string[] = []
  for (const path of [...paths].sort()) if (!kept.some((folder) => within(path, folder))) kept.push(path)
  return kept
}

/** A folder or an empty file to mount a path upon. */
function place (root: string, path: string): void {
  const isFolder = statSync(path).isDirectory()
  mkdirSync(root + (isFolder ? path : dirname(path)), { recursive: true, mode: 0o755 })
  if (!isFolder) writeFileSync(root + path, '')
}

/** Mount points with what is forbidden there: a user namespace cannot take that off, and has to repeat it. */
function mountsHere (): Map<string, string[]> {
  return new Map(readFileSync('/proc/self/mountinfo', 'utf8').trimEnd().split('\n').map((line) => {
    const [, , , , point = '', options = ''] = line.split(' ')
    const path = point.replace(/\\(\d{3})/g, (_, digits: string) => String.fromCharCode(parseInt(digits, 8)))
    return [path, options.split(',').filter((word) => /^(nosuid|nodev|noexec)$/.test(word))]
  }))
}

const escaped = (path: string): string =>
  path.replace(/[\s\\#]/g, (sign) => `\\${sign.charCodeAt(0).toString(8).padStart(3, '0')}`)

const CHECK_MS = 5_000
/** After this a level below the best is tried anew: the machine may have been changed. */
const AGAIN_MS = 60_000
interface Found { hold: Hold, tools: Tools, at: number }
const known = new Map<string, Found>()

/**
 * The best level here at `now` (ms), and the programs for it; without a cell nothing is asked but whether the
 * runner ends with the node. What was found is kept, unless a try did not come to an end.
 */
export function holdHere (
  cell: Cell | undefined, now: number, path: string = process.env['PATH'] ?? ''
): Found {
  const levels: readonly Hold[] = cell === undefined ? ['none'] : HOLDS
  const key = `${levels.length} ${path}`
  const last = known.get(key)
  if (last !== undefined && (last.hold === levels[0] || now - last.at < AGAIN_MS)) return last
  const tools = findTools(path)
  let sure = true
  const works = (hold: Hold): boolean => {
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

const STATE: Readonly<Record<Hold, string>> = {
  namespaces: '',
  network: 'they are held to their files, without network (Landlock), but see other processes',
  files: 'they are held to their files (Landlock), but reach the network and other processes',
  privileges: 'they get no new rights, but may read what the node may, and reach the network',
  none: 'they may do what the node may'
}
/** Settings of the kernel that keep a user from making namespaces: what they are then, and what mends it. */
const SETTINGS = [
  ['kernel.apparmor_restrict_unprivileged_userns', '1', '0'],
  ['kernel.unprivileged_userns_clone', '0', '1'],
  ['user.max_user_namespaces', '0', '10000']
] as const

/** What keeps this machine from holding runners in namespaces, and what mends it; null where nothing does. */
export function lacksHere (folder: string, now: number): string | null {
  const scratch = join(folder, 'probe')
  const work = join(scratch, 'work')
  mkdirSync(work, { recursive: true, mode: 0o700 })
  const files = (): Files => filesFor({ home: folder, scripts: [], model: [], options: {}, env: process.env })
  const { hold, tools } = holdHere({ scratch, work, files }, now)
  rmSync(scratch, { recursive: true, force: true })
  return hold === HOLDS[0] ? null : `Here ${STATE[hold]}: ${missing(tools, process.platform)}`
}

/** Why there are no namespaces, and what to do. */
export function missing (tools: Tools, platform: string, setting = read): string {
  if (platform !== 'linux') return `${platform} has nothing to hold them by; run models of strangers on Linux`
  const absent = TOOLS.filter((name) => tools[name] === undefined)
  if (absent.length > 0) return `there is no ${absent.join(', ')} in PATH: \`sudo apt install util-linux mount\``
  const found = SETTINGS.find(([name, bad]) => setting(`/proc/sys/${name.replaceAll('.', '/')}`)?.trim() === bad)
  return found === undefined
    ? 'this system refuses namespaces, as containers do. Run svc outside of one, or with setpriv of util-linux 2.40'
    : `${found[0]} is ${found[1]}: \`sudo sysctl -w ${found[0]}=${found[2]}\`, and the same in /etc/sysctl.d`
}
