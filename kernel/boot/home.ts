import { createHash, randomUUID } from 'node:crypto'
import {
  chmodSync, closeSync, existsSync, fstatSync, fsyncSync, linkSync, mkdirSync, openSync, readFileSync,
  renameSync, rmSync, statSync, writeFileSync
} from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { diskError } from '../api/errors.js'
import { orElse, parseJson } from '../api/schema.js'

/** Files and folders in the home directory, by purpose. */
export const homeFile = {
  node: 'node.json',
  operatorToken: 'operator.token',
  tokens: 'state/tokens.json',
  alone: 'state/alone.json',
  lock: 'run/node.lock',
  running: 'run/node.json',
  reserve: 'run/reserve',
  config: 'svc.yaml'
} as const

const FOLDERS = ['state', 'run', 'logs', 'cards', 'traces', 'events']

/** The home directory is unusable; the message says how to fix it. */
export class HomeError extends Error { override readonly name = 'HomeError' }

/** Recursive mkdir; Node's own loops forever on an ENOENT below an existing folder, as in /proc. */
export function makeFolder (path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return
    if (code !== 'ENOENT' || existsSync(dirname(path))) throw error
    makeFolder(dirname(path))
    mkdirSync(path, { mode: 0o700 })
  }
}

/** Creates the home and the given folders in it (mode 0700) if missing. Throws HomeError on failure. */
export function prepareHome (home: string, folders: readonly string[] = FOLDERS): void {
  try {
    for (const folder of ['', ...folders]) makeFolder(join(home, folder))
  } catch (error) {
    const why = (error as Error).message
    throw new HomeError(`cannot create the home ${home}: ${why}; choose another with --home`)
  }
  if ((statSync(home).mode & 0o022) !== 0) chmodSync(home, 0o700)
}

/**
 * Reads a file; undefined if it is missing. Throws HomeError if it is unreadable or, for a secret, if
 * users other than the owner could read or write it.
 */
export function readText (path: string, kind: 'secret' | 'public'): string | undefined {
  let file: number
  try {
    file = openSync(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new HomeError(`cannot read ${path}: ${(error as Error).message}`)
  }
  try {
    if (kind === 'secret' && (fstatSync(file).mode & 0o077) !== 0) {
      throw new HomeError(`${path} can be read by others; run: chmod 600 ${path}`)
    }
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (error instanceof HomeError) throw error
    throw new HomeError(`cannot read ${path}: ${(error as Error).message}`)
  } finally {
    closeSync(file)
  }
}

/**
 * Reads a JSON file that has a `format` field. Undefined if the file is missing. Throws HomeError for a
 * newer format (written by a later svc) and for invalid contents.
 */
export function readVersioned<T extends object> (path: string, format: number): T | undefined {
  const text = readText(path, 'public')
  if (text === undefined) return undefined
  const broken = (why: string): HomeError =>
    new HomeError(`${path} ${why}; restore it from a backup or move it away`)
  let value: (T & { format?: unknown }) | null
  try { value = JSON.parse(text) as typeof value } catch { throw broken('is not valid JSON') }
  if (typeof value?.format !== 'number') throw broken('has no format number')
  if (value.format > format) {
    throw new HomeError(
      `${path} has format ${value.format}, this svc supports up to ${format}; use the newer svc`)
  }
  return value
}

/**
 * Writes a file atomically: temporary file, fsync, rename, fsync of the folder. A failure leaves no
 * temporary file. Throws `insufficient_storage` for a full disk.
 */
export function writeWhole (path: string, text: string, mode = 0o600): void {
  const temporary = `${path}.${process.pid}.tmp`
  try {
    const file = openSync(temporary, 'w', mode)
    try {
      // Unlike writeSync, writeFileSync always writes all bytes.
      writeFileSync(file, text)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    renameSync(temporary, path)
    syncFolder(dirname(path))
  } catch (error) {
    rmSync(temporary, { force: true })
    throw diskError(error, path, Buffer.byteLength(text)) ?? error
  }
}

/** Upper bound on the number of bytes that a node writes while it starts. */
export const START_BYTES = 64 * 1024

/** Frees the reserve file if the disk is too full to start. Throws HomeError if that does not free enough. */
export async function releaseReserve (home: string): Promise<void> {
  const [run, reserve] = [join(home, 'run'), join(home, homeFile.reserve)]
  try {
    await tryWrite(run, START_BYTES).catch(async (error: unknown) => {
      if (!isFull(error)) throw error
      await rm(reserve, { force: true })
      await tryWrite(run, START_BYTES)
    })
  } catch (error) {
    throw noRoom(home, error)
  }
}

function isFull (error: unknown): boolean {
  const { code } = ((error as Error).cause ?? error) as NodeJS.ErrnoException
  return code === 'ENOSPC' || code === 'EDQUOT'
}

export function noRoom (home: string, error: unknown): HomeError {
  const why = (error as Error).message.replace(/\.$/, '')
  const room = `A node needs ${START_BYTES / 1024} KiB to start: free disk space for ${home} ` +
    `(\`du -a ${home} | sort -n\` lists its files)`
  const remedy = isFull(error) ? room : `Make ${home} writable`
  return new HomeError(`${why}. ${remedy}, or choose another with --home`)
}

/** Tests the free space by writing `bytes` bytes to a folder and removing them. Throws like `writeWhole`. */
export async function tryWrite (folder: string, bytes: number): Promise<void> {
  const path = join(folder, `write-test.${process.pid}.tmp`)
  try {
    await writeFile(path, Buffer.alloc(bytes), { mode: 0o600, flush: true })
  } catch (error) {
    throw diskError(error, path, bytes) ?? error
  } finally {
    await rm(path, { force: true })
  }
}

function syncFolder (path: string): void {
  const folder = openSync(path, 'r')
  try { fsyncSync(folder) } finally { closeSync(folder) }
}

export function writeVersioned (path: string, format: number, value: object): void {
  writeWhole(path, `${JSON.stringify({ format, ...value }, null, 2)}\n`)
}

interface Holder { format: number, pid: number, startTicks: string | null, since: string }

/** Fields 3 and 22 of /proc/<pid>/stat: the state letter and the start time in clock ticks since boot. */
function procStat (pid: number): { state: string, startTicks: string } | null {
  const stat = orElse(null, () => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  if (stat === null) return null
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return { state: fields[0] ?? '', startTicks: fields[19] ?? '' }
}

/** Start time of a process in clock ticks since boot; null if unknown. */
export function startTicks (pid: number): string | null { return procStat(pid)?.startTicks ?? null }

/** A zombie counts as dead, since containers without an init process never reap them. */
function alive (holder: Holder): boolean {
  try { process.kill(holder.pid, 0) } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
  }
  const stat = procStat(holder.pid)
  if (stat !== null && /[ZX]/.test(stat.state)) return false
  return holder.startTicks === null || stat?.startTicks === holder.startTicks
}

/**
 * Locks the home for this process; returns a function that unlocks it. Takes over a dead process's lock, even
 * if a later process has the same pid. Throws HomeError naming the pid of a live holder.
 */
export function lockHome (home: string): () => void {
  const taken = takeLock(join(home, homeFile.lock))
  if (typeof taken === 'function') return taken
  throw new HomeError(`the home ${home} is in use by process ${taken.pid} since ${taken.since}; ` +
    'stop it, or give this node its own with --home')
}

/**
 * Takes a lock file; returns a function that releases it, or the live process that holds it. Takes over a
 * dead process's lock. Throws HomeError if the file cannot be written.
 */
export function takeLock (path: string): (() => void) | { pid: number, since: string } {
  const mine: Holder = {
    format: 1, pid: process.pid, startTicks: startTicks(process.pid), since: new Date().toISOString()
  }
  const text = JSON.stringify(mine)
  const aside = `${path}.${randomUUID()}`
  try {
    writeWhole(aside, text)
    for (let attempt = 0; attempt < 3; attempt++) {
      if (linked(aside, path)) return () => { if (readLock(path) === text) rmSync(path, { force: true }) }
      const held = readLock(path)
      const holder = holderIn(held)
      if (holder !== undefined && alive(holder)) return holder
      if (held !== undefined) dropStale(path, aside, held)
    }
  } finally {
    rmSync(aside, { force: true })
  }
  throw new HomeError(`cannot take the lock; remove ${path}* if no svc process is running there`)
}

/** Hard-links the lock into place, so that it appears complete and never replaces another lock. */
function linked (aside: string, path: string): boolean {
  try {
    linkSync(aside, path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw new HomeError(`cannot write ${path}: ${(error as Error).message}`)
  }
}

/**
 * Removes a dead process's lock file if its content is still `held`. Only one of several processes that
 * saw the stale lock may do this, so that none removes a newer lock. False if another process was first.
 */
export function dropStale (path: string, aside: string, held: string): boolean {
  const turn = `${path}.${createHash('sha256').update(held).digest('hex').slice(0, 16)}`
  if (!linked(aside, turn)) return false
  try {
    const same = readLock(path) === held
    if (same) rmSync(path)
    return same
  } finally {
    rmSync(turn, { force: true })
  }
}

const readLock = (path: string): string | undefined => orElse(undefined, () => readFileSync(path, 'utf8'))

/** The process named in a lock file; undefined if the file's text is invalid. */
function holderIn (text: string | undefined): Holder | undefined {
  const holder = parseJson(text ?? '') as Holder | null | undefined
  return Number.isInteger(holder?.pid) ? holder! : undefined
}

/** The install id: a UUID created once per home. */
export function installId (home: string): string {
  const path = join(home, homeFile.node)
  const known = readVersioned<{ installId: string }>(path, 1)
  if (known !== undefined) return known.installId
  const id = randomUUID()
  writeVersioned(path, 1, { installId: id, created: new Date().toISOString() })
  return id
}
