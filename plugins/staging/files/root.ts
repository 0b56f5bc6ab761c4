import { randomUUID } from 'node:crypto'
import { constants, type Dirent, type Stats } from 'node:fs'
import { access, lstat, mkdir, readdir, rename } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { openSvcFile } from './open.js'
import { PathError, errnoOf, folderOf, modelOf, orMissing } from './names.js'
import { isRealFolder, sync } from './folders.js'
import { KeyedLock } from './queues.js'
import { checkRecord, localCopy, manifestDigest, RECORD_FILE, readRecord, writeRecord } from './record.js'
import {
  isSealed, isTransfer, missingFile, notOurs, removeAll, removeCopy, requireFiles, finalizeCopy, foreignFileIn
} from './seal.js'
import { bytesOf, findFiles, freeable, newest } from './walk.js'
import { makeFolder, type Clock, type Logger } from '../../../kernel/index.js'
import type { Copy, CopyRecord, LocalCopy, Role } from '../types.js'

const SETTINGS: Readonly<Record<Role, string>> = {
  store: 'model_store.store_path', staged: 'node_cache_path', beside: 'node_cache_path',
  cache: 'model_store.hub.cache_path'
}
const INCOMING = '.incoming'
const TRASH = '.trash'
const LAST_USED = '.last_used'
/** Time after which partial transfers expire. */
const KEEP_PARTIAL_MS = 24 * 3600_000
/** Created as the first file in a transfer folder, to mark the folder as svc's. */
const TRANSFER_FILE = '.svc-transfer'
/** Names in the trash. A sweep removes a `transfer` completely, but only the recorded files of a `copy`. */
const TRASHED = /^(copy|transfer)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** An unpublished transfer. `mtimeMs`: time of the latest change to the folder or to a file in it. */
export interface Pending { modelId: string, directory: string, sizeBytes: number, mtimeMs: number }

/** A sweep removes transfers unchanged for `olderThanMs` unless `live` has their model at that moment. */
export interface SweepOptions { olderThanMs: number, live: Pick<ReadonlySet<string>, 'has'> }

type Unpublished = Omit<CopyRecord, 'publishedAt'> & Partial<Pick<CopyRecord, 'publishedAt'>>

/**
 * A folder of model folders: the staging root, the store or the hub's cache. Copies appear and disappear by a
 * rename, so a crash leaves only complete ones. svc never removes files that it did not write. Changes to a
 * model are serialized only within this object, so each folder must have only one ModelRoot.
 */
export class ModelRoot {
  readonly root: string
  readonly role: Role
  readonly setting: string
  /** The complete copies by model id, known after `load`. */
  readonly copies = new Map<string, LocalCopy>()
  onChange: (modelId: string) => void = () => {}
  /** False if the folder is unusable; the root then reports no copies and refuses transfers. */
  usable = true
  readonly #clock: Clock
  readonly #lock = new KeyedLock()
  readonly #busy = new Set<string>()

  constructor ({ root, clock, role = 'staged' }: { root: string, clock: Clock, role?: Role }) {
    this.root = resolve(root)
    this.role = role
    this.setting = SETTINGS[role]
    this.#clock = clock
  }

  /** Prepares the folder and completes publications that a crash interrupted. */
  async prepare (): Promise<void> {
    try {
      makeFolder(this.root)
      for (const name of [INCOMING, TRASH]) await this.#inner(name)
      await access(this.root, constants.W_OK | constants.X_OK)
      await this.#recover()
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause)
      throw new Error(`The model folder ${this.root} cannot be used: ${why}`, { cause })
    }
  }

  requireUsable (): void { if (!this.usable) throw new Error(`The folder ${this.root} cannot be used.`) }

  async #inner (name: string): Promise<void> {
    const folder = join(this.root, name)
    if (await isRealFolder(folder)) return
    await mkdir(folder, { mode: 0o700 }).catch((error: unknown) => {
      if (errnoOf(error) !== 'EEXIST') throw error
    })
  }

  async #recover (): Promise<void> {
    for (const { modelId, directory } of await this.#transfers()) {
      await this.#alone(modelId, async () => {
        if (!await isSealed(directory, modelId)) return
        await this.#swap(directory, modelId).catch((error: unknown) => {
          // Ignore the PathError: the next attempt to publish this model throws it again.
          if (!(error instanceof PathError)) throw error
        })
      })
    }
  }

  async load (): Promise<void> {
    for (const { modelId, directory, record } of await this.list()) {
      if (record !== null) this.copies.set(modelId, localCopy(this.role, directory, record))
    }
  }

  #hold (copy: Copy, record: CopyRecord): Copy {
    this.copies.set(copy.modelId, localCopy(this.role, copy.directory, record))
    this.onChange(copy.modelId)
    return copy
  }

  forget (modelId: string): void { if (this.copies.delete(modelId)) this.onChange(modelId) }

  /** All copies, most recently used first, including copies without a record. */
  async list (): Promise<Copy[]> {
    const copies: Copy[] = []
    for (const entry of await this.#entries('')) {
      const modelId = entry.isDirectory() ? modelOf(entry.name) : undefined
      const copy = modelId === undefined ? undefined : await this.read(modelId)
      if (copy !== undefined) copies.push(copy)
    }
    return copies.sort((a, b) => b.lastUsedMs - a.lastUsedMs || (a.modelId < b.modelId ? -1 : 1))
  }

  /** The published copy of a model; `record` is null if the record is damaged or a file is missing. */
  async read (modelId: string): Promise<Copy | undefined> {
    const directory = this.#published(modelId)
    while (this.usable) {
      const own = await lstat(directory).catch(() => undefined)
      if (own?.isDirectory() !== true) return undefined
      const copy = await this.#look(modelId, directory, own)
      // Read again if the folder was replaced in the meantime, since the files may be from two versions.
      const after = await lstat(directory).catch(() => undefined)
      if (after?.ino === own.ino) return copy
    }
    return undefined
  }

  async #look (modelId: string, directory: string, own: Stats): Promise<Copy> {
    const [files, record, marker] = await Promise.all([
      findFiles(directory), readRecord(directory, modelId),
      lstat(join(directory, LAST_USED)).catch(() => undefined)
    ])
    const named = new Set(record?.manifest.files.map(({ path }) => path))
    const whole = record !== null && missingFile(record.manifest, files) === undefined
    const used = marker?.isFile() === true ? marker : own
    return {
      modelId,
      directory,
      sizeBytes: bytesOf(files),
      freeableBytes: freeable(files.filter(({ path }) => named.has(path))),
      // Rounded because file systems report fractions of milliseconds.
      lastUsedMs: Math.round(used.mtimeMs),
      record: whole ? record : null,
      ours: record !== null
    }
  }

  /** Path of the model's transfer folder, which may not exist. Throws PathError for an invalid model id. */
  incoming (modelId: string): string { return join(this.root, INCOMING, folderOf(modelId)) }

  /** Creates or reuses the transfer folder. Throws PathError if publishing would replace foreign files. */
  async begin (modelId: string): Promise<string> {
    this.requireUsable()
    return await this.#alone(modelId, async () => {
      await this.#mayReplace(modelId)
      await this.#inner(INCOMING)
      const folder = this.incoming(modelId)
      if (!await isRealFolder(folder)) await mkdir(folder, { mode: 0o700 })
      else if (!await isTransfer(folder)) throw notOurs(folder)
      await (await openSvcFile(folder, TRANSFER_FILE, 'update')).close()
      return folder
    })
  }

  async #mayReplace (modelId: string): Promise<void> {
    const directory = this.#published(modelId)
    if (!await isRealFolder(directory)) return
    const record = await readRecord(directory, modelId)
    const stranger = record === null ? '' : await foreignFileIn(directory, record)
    if (stranger !== undefined) throw notOurs(join(directory, stranger))
  }

  async pending (wanted?: string): Promise<Pending[]> {
    const found: Pending[] = []
    for (const { modelId, directory } of await this.#transfers(wanted)) {
      const files = await findFiles(directory)
      const mtimeMs = files.reduce((latest, file) => Math.max(latest, file.mtimeMs), await newest(directory))
      found.push({ modelId, directory, sizeBytes: bytesOf(files), mtimeMs: Math.round(mtimeMs) })
    }
    return found
  }

  /**
   * Publishes the transfer of a model and replaces an existing copy. The transfer must hold the manifest's
   * files, with hashes that the caller has verified; other files in it are removed. If the transfer is gone
   * but the same content is published, returns that copy. Throws ManifestError or PathError if the record or
   * the files are invalid; the old copy is then kept.
   */
  async publish (modelId: string, record: Unpublished): Promise<Copy> {
    const checked = this.#checked(modelId, record)
    return await this.#alone(modelId, async () => {
      const from = this.incoming(modelId)
      if (!await this.#transferExists(from)) {
        const there = await this.read(modelId)
        const same = there?.record != null && digestOf(there.record) === digestOf(checked)
        if (same) return this.#hold(there, checked)
        throw new PathError(`There is no transfer of ${modelId} to publish: ${from} does not exist.`)
      }
      await finalizeCopy(from, checked)
      await this.#swap(from, modelId)
      return this.#hold(await this.#require(modelId), checked)
    })
  }

  #checked (modelId: string, record: Unpublished): CopyRecord {
    return checkRecord({ publishedAt: new Date(this.#clock.now()).toISOString(), ...record }, modelId)
  }

  async #transferExists (from: string): Promise<boolean> {
    return await isRealFolder(join(this.root, INCOMING)) && await isRealFolder(from)
  }

  async #swap (from: string, modelId: string): Promise<void> {
    await this.#mayReplace(modelId)
    const to = this.#published(modelId)
    const arrive = async (): Promise<void> => {
      await rename(from, to)
      await sync(this.root)
      await sync(join(this.root, INCOMING))
    }
    if (!await isRealFolder(to)) return await arrive()
    await this.#trash('copy', to, async (old) => {
      await arrive().catch(async (error: unknown) => {
        if (!await isRealFolder(to)) await rename(old, to)
        throw error
      })
      // Ignore failures: the new copy is in place, and the next sweep removes any remains of the old one.
      await removeCopy(old).catch(() => {})
    })
  }

  /** Adds a record to a folder filled by hand. Throws PathError unless the files match the manifest. */
  async adopt (modelId: string, record: Unpublished): Promise<Copy> {
    const checked = this.#checked(modelId, record)
    return await this.#alone(modelId, async () => {
      const directory = this.#published(modelId)
      const found = await requireFiles(directory, checked.manifest)
      if (found.length !== checked.manifest.files.length) {
        throw new PathError(`${directory} has ${found.length} files, ` +
          `but the record lists ${checked.manifest.files.length}.`)
      }
      await writeRecord(directory, checked)
      return this.#hold(await this.#require(modelId), checked)
    })
  }

  async #require (modelId: string): Promise<Copy> {
    const copy = await this.read(modelId)
    if (copy === undefined) throw new PathError(`${this.#published(modelId)} was removed by another program.`)
    return copy
  }

  /** Removes only svc's files. Resolves with the freed bytes. Throws PathError without a record. */
  async remove (modelId: string): Promise<number> {
    return await this.#alone(modelId, async () => {
      const directory = this.#published(modelId)
      if (!await isRealFolder(directory)) return 0
      const { ours, freeableBytes } = await this.#require(modelId)
      if (!ours) throw notOurs(directory)
      await this.#trash('copy', directory, async (trash) => {
        await sync(this.root)
        if (!await removeCopy(trash)) await rename(trash, directory)
      })
      this.forget(modelId)
      return freeableBytes
    })
  }

  async discard (modelId: string): Promise<void> {
    await this.#alone(modelId, async () => {
      const directory = this.incoming(modelId)
      if (!await this.#transferExists(directory) || !await isTransfer(directory)) return
      await this.#trash('transfer', directory, async (trash) => {
        await sync(dirname(directory))
        await removeAll(trash)
      })
    })
  }

  async touch (modelId: string, nowMs: number): Promise<void> {
    if (!this.usable) return
    await this.#alone(modelId, async () => {
      const directory = this.#published(modelId)
      if (!await isRealFolder(directory)) return
      const record = await lstat(join(directory, RECORD_FILE)).catch(() => undefined)
      if (record?.isFile() !== true) return
      const marker = await openSvcFile(directory, LAST_USED, 'update')
      try { await marker.utimes(nowMs / 1000, nowMs / 1000) } finally { await marker.close() }
    })
  }

  /** Empties the trash and removes old transfers. Continues after failures; throws the first at the end. */
  async sweep ({ olderThanMs, live }: SweepOptions): Promise<void> {
    const failures: unknown[] = []
    const keep = (error: unknown): void => { failures.push(error) }
    for (const entry of await this.#entries(TRASH)) {
      const path = join(this.root, TRASH, entry.name)
      const kind = entry.isDirectory() && !this.#busy.has(path) ? TRASHED.exec(entry.name)?.[1] : undefined
      if (kind === 'transfer') await removeAll(path).catch(keep)
      else if (kind === 'copy') await removeCopy(path).then((all) => { if (!all) keep(notOurs(path)) }, keep)
    }
    const before = this.#clock.now() - olderThanMs
    for (const { modelId, mtimeMs } of await this.pending()) {
      if (mtimeMs < before && !live.has(modelId)) await this.discard(modelId).catch(keep)
    }
    if (failures.length === 0) return
    throw new Error(`${failures.length} folders in ${this.root} could not be removed; first error: ` +
      String(failures[0]), { cause: failures[0] })
  }

  /** Sweeps transfers that have not changed for a day; logs failures. */
  async expire (live: SweepOptions['live'], log: Logger): Promise<void> {
    await this.sweep({ olderThanMs: KEEP_PARTIAL_MS, live }).catch((err: unknown) => {
      log.warn({ err, path: this.root }, 'remains of earlier transfers could not be removed')
    })
  }

  /** Renames a folder into the trash and protects it from sweeps while `work` runs. */
  async #trash (
    kind: 'copy' | 'transfer', directory: string, work: (trash: string) => Promise<void>
  ): Promise<void> {
    await this.#inner(TRASH)
    const trash = join(this.root, TRASH, `${kind}-${randomUUID()}`)
    this.#busy.add(trash)
    try {
      await rename(directory, trash)
      await work(trash)
    } finally { this.#busy.delete(trash) }
  }

  async #transfers (wanted?: string): Promise<{ modelId: string, directory: string }[]> {
    const found: { modelId: string, directory: string }[] = []
    for (const entry of await this.#entries(INCOMING)) {
      const modelId = entry.isDirectory() ? modelOf(entry.name) : undefined
      if (wanted !== undefined && modelId !== wanted) continue
      const directory = join(this.root, INCOMING, entry.name)
      if (modelId !== undefined && await isTransfer(directory)) found.push({ modelId, directory })
    }
    return found
  }

  /** Entries of the root or of an inner folder. Throws PathError if the inner folder is a symbolic link. */
  async #entries (name: '' | typeof INCOMING | typeof TRASH): Promise<Dirent[]> {
    if (!this.usable) return []
    if (name !== '' && !await isRealFolder(join(this.root, name))) return []
    return await orMissing(readdir(join(this.root, name), { withFileTypes: true }), [])
  }

  #published (modelId: string): string { return join(this.root, folderOf(modelId)) }

  /** Serializes work per model; ids that differ only in case share a key, as they may share a folder. */
  async #alone<T> (modelId: string, section: () => Promise<T>): Promise<T> {
    return await this.#lock.run(folderOf(modelId).toLowerCase(), section)
  }
}

const digestOf = ({ manifest }: CopyRecord): string => manifestDigest(manifest)
