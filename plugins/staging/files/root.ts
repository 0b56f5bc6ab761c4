import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import type { Dirent, Stats } from 'node:fs'
import { access, lstat, mkdir, readdir, rename } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { openSvcFile } from './open.js'
import { PathError, errnoOf, folderOf, modelOf } from './names.js'
import { isRealFolder, makeFolders, sync } from './folders.js'
import { KeyedLock } from './queues.js'
import { checkRecord, localCopy, manifestDigest, RECORD_FILE, readRecord, writeRecord } from './record.js'
import {
  isSealed, isTransfer, missingFile, notOurs, removeAll, removeCopy, requireFiles, finalizeCopy, foreignFileIn
} from './seal.js'
import { bytesOf, findFiles, freeable, newest } from './walk.js'
import type { Clock } from '../../../kernel/index.js'
import type { Copy, CopyRecord, LocalCopy, Role } from '../types.js'

const SETTINGS: Readonly<Record<Role, string>> = {
  store: 'model_store.store_path', staged: 'node_cache_path', beside: 'node_cache_path',
  cache: 'model_store.hub.cache_path'
}
const INCOMING = '.incoming'
const TRASH = '.trash'
const LAST_USED = '.last_used'
/** Says that a folder of a transfer is svc's, before anything else is in it. */
const TRANSFER_FILE = '.svc-transfer'
/** What svc itself moved to the trash, and whether all of it may go or only what its record names. */
const TRASHED = /^(copy|transfer)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** A transfer that is not published yet. `mtimeMs` is its latest change, of the folder or a file in it. */
export interface Pending { modelId: string, directory: string, sizeBytes: number, mtimeMs: number }

/** A sweep removes transfers unchanged for `olderThanMs`; `live` is asked just before each removal. */
export interface SweepOptions { olderThanMs: number, live: Pick<ReadonlySet<string>, 'has'> }

/** A record; without a time it is published now. */
type Unpublished = Omit<CopyRecord, 'publishedAt'> & Partial<Pick<CopyRecord, 'publishedAt'>>

/**
 * A folder of model folders: the staging root, the store or the hub's cache. Copies appear and go by a
 * rename, so that a crash leaves whole ones only. What svc did not write itself is never removed. Every
 * change of one model runs alone; that holds within one object, so a folder must not be opened twice.
 */
export class ModelRoot {
  readonly root: string
  readonly role: Role
  readonly setting: string
  /** By model id: the complete copies, as of `load`, and of what has come and gone since. */
  readonly copies = new Map<string, LocalCopy>()
  onChange: (modelId: string) => void = () => {}
  /** Set to false where the folder cannot be used: then it holds nothing, and nothing is brought there. */
  usable = true
  readonly #clock: Clock
  readonly #lock = new KeyedLock()
  /** Folders in the trash that a running operation still needs or removes itself. */
  readonly #busy = new Set<string>()

  /** The clock says what is old; the root need not exist yet. */
  constructor ({ root, clock, role = 'staged' }: { root: string, clock: Clock, role?: Role }) {
    this.root = resolve(root)
    this.role = role
    this.setting = SETTINGS[role]
    this.#clock = clock
  }

  /** Makes the root and its inner folders, and finishes publications that a crash cut off. */
  async prepare (): Promise<void> {
    try {
      await makeFolders(this.root)
      for (const name of [INCOMING, TRASH]) await this.#inner(name)
      await access(this.root, constants.W_OK | constants.X_OK)
      await this.#recover()
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause)
      throw new Error(`The model folder ${this.root} cannot be used: ${why}`, { cause })
    }
  }

  requireUsable (): void {
    if (!this.usable) throw new Error(`The folder ${this.root} cannot be used.`)
  }

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
          // What stands in its way is told to whoever publishes it again.
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

  /** Every published copy, newest used first, those without a record too. An absent root holds none. */
  async list (): Promise<Copy[]> {
    const copies: Copy[] = []
    for (const entry of await this.#entries('')) {
      const modelId = entry.isDirectory() ? modelOf(entry.name) : undefined
      const copy = modelId === undefined ? undefined : await this.read(modelId)
      if (copy !== undefined) copies.push(copy)
    }
    return copies.sort((a, b) => b.lastUsedMs - a.lastUsedMs || (a.modelId < b.modelId ? -1 : 1))
  }

  /** The published copy of a model; its record is null when it is damaged, or a file of it is missing. */
  async read (modelId: string): Promise<Copy | undefined> {
    const directory = this.#published(modelId)
    while (this.usable) {
      const own = await lstat(directory).catch(() => undefined)
      if (own?.isDirectory() !== true) return undefined
      const copy = await this.#look(modelId, directory, own)
      // Another folder by now: what was seen may be half of the one and half of the other.
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
      // Rounded: a file system keeps the milliseconds as a fraction of a second.
      lastUsedMs: Math.round(used.mtimeMs),
      record: whole ? record : null,
      ours: record !== null
    }
  }

  /** Where a transfer of this model writes; not made here. Throws PathError for what is no model id. */
  incoming (modelId: string): string { return join(this.root, INCOMING, folderOf(modelId)) }

  /**
   * Makes that folder, or takes up the one an earlier transfer left. Throws PathError where svc would replace
   * what somebody else put there, in it or under the model's own name.
   */
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

  /** Throws PathError unless the copy that is there, if any, consists of what svc wrote. */
  async #mayReplace (modelId: string): Promise<void> {
    const directory = this.#published(modelId)
    if (!await isRealFolder(directory)) return
    const record = await readRecord(directory, modelId)
    const stranger = record === null ? '' : await foreignFileIn(directory, record)
    if (stranger !== undefined) throw notOurs(join(directory, stranger))
  }

  /** The transfers, or that of one model, that are not published yet, whether they run or not. */
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
   * Publishes the transfer of a model, which must hold the manifest's files (their hashes are the caller's
   * promise); other files in it are removed. A copy that is already there is replaced. When the transfer is
   * gone and the same content is published, that copy is the answer. Throws ManifestError or PathError when
   * the record or the files are not right; then the old copy stays.
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

  /** Renames a sealed transfer to its published name; the copy that was there goes to the trash. */
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
      // What cannot be removed now is left to the next sweep: the new copy is in place.
      await removeCopy(old).catch(() => {})
    })
  }

  /** Writes a record into a folder by hand. Throws PathError unless it holds exactly the manifest's files. */
  async adopt (modelId: string, record: Unpublished): Promise<Copy> {
    const checked = this.#checked(modelId, record)
    return await this.#alone(modelId, async () => {
      const directory = this.#published(modelId)
      const found = await requireFiles(directory, checked.manifest)
      if (found.length !== checked.manifest.files.length) {
        throw new PathError(`${directory} holds ${found.length} files, ` +
          `the record names ${checked.manifest.files.length}.`)
      }
      await writeRecord(directory, checked)
      return this.#hold(await this.#require(modelId), checked)
    })
  }

  async #require (modelId: string): Promise<Copy> {
    const copy = await this.read(modelId)
    if (copy === undefined) throw new PathError(`${this.#published(modelId)} was removed by somebody else.`)
    return copy
  }

  /**
   * Removes what svc wrote of the published copy; files that somebody else put into its folder stay there.
   * Returns the bytes that gives back, 0 when there is no copy. Throws PathError for one without a record.
   */
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

  /** Marks the copy of a model as used at a wall time; nothing happens when there is none. */
  async touch (modelId: string, nowMs: number): Promise<void> {
    if (!this.usable) return
    await this.#alone(modelId, async () => {
      const directory = this.#published(modelId)
      if (!await isRealFolder(directory)) return
      const record = await lstat(join(directory, RECORD_FILE)).catch(() => undefined)
      if (record?.isFile() !== true) return
      const marker = await openSvcFile(directory, LAST_USED, 'update')
      try {
        await marker.utimes(nowMs / 1000, nowMs / 1000)
      } finally {
        await marker.close()
      }
    })
  }

  /** Empties the trash and removes old transfers, as far as it can; throws the first failure. */
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
    throw new Error(`${failures.length} folders in ${this.root} could not be removed, the first: ` +
      String(failures[0]), { cause: failures[0] })
  }

  /** Renames a folder into the trash; sweeps leave it alone until `work` is done with it. */
  async #trash (
    kind: 'copy' | 'transfer', directory: string, work: (trash: string) => Promise<void>
  ): Promise<void> {
    await this.#inner(TRASH)
    const trash = join(this.root, TRASH, `${kind}-${randomUUID()}`)
    this.#busy.add(trash)
    try {
      await rename(directory, trash)
      await work(trash)
    } finally {
      this.#busy.delete(trash)
    }
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

  /** What the root or an inner folder of it holds. Throws PathError for an inner folder that is a link. */
  async #entries (name: '' | typeof INCOMING | typeof TRASH): Promise<Dirent[]> {
    if (!this.usable) return []
    if (name !== '' && !await isRealFolder(join(this.root, name))) return []
    return await readdir(join(this.root, name), { withFileTypes: true }).catch((error: unknown) => {
      if (errnoOf(error) === 'ENOENT') return []
      throw error
    })
  }

  #published (modelId: string): string { return join(this.root, folderOf(modelId)) }

  /** Two ids that differ only in case may mean one folder. */
  async #alone<T> (modelId: string, section: () => Promise<T>): Promise<T> {
    return await this.#lock.run(folderOf(modelId).toLowerCase(), section)
  }
}

const digestOf = ({ manifest }: CopyRecord): string => manifestDigest(manifest)
