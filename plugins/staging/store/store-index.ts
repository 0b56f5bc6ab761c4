import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { putOwnText, readOwn } from '../files/open.js'
import { walkModel } from '../files/walk.js'
import { StoreError, type Copy } from '../types.js'
import { hashTree, makeReadOnly } from './folder.js'
import type { KeyedLock } from '../files/queues.js'
import type { StoreOptions, StoreProblem } from './types.js'

export class StoreIndex {
  readonly #options: StoreOptions
  readonly #turns: KeyedLock
  readonly #problems = new Map<string, string>()
  #adoption: { modelId: string, abort: AbortController } | null = null
  #closed = false

  constructor (options: StoreOptions, turns: KeyedLock) {
    this.#options = options
    this.#turns = turns
  }

  problems (): StoreProblem[] {
    return [...this.#problems].filter(([modelId]) => !this.#options.root.copies.has(modelId))
      .map(([modelId, problem]) => ({ modelId, problem }))
  }

  drop (modelId: string): void { if (this.#problems.delete(modelId)) this.#options.onChange(modelId) }

  interrupt (modelId: string): void {
    if (this.#adoption?.modelId !== modelId) return
    this.#adoption.abort.abort(new StoreError('cancelled', 'the folder is being removed'))
  }

  /** Ends the import; its promise resolves soon. */
  close (): void {
    this.#closed = true
    this.#adoption?.abort.abort(new StoreError('closed', 'the store is closing'))
  }

  /** Imports all folders without a record. Never rejects. */
  async importExisting (): Promise<void> {
    const { root, log } = this.#options
    try {
      for (const { modelId, record } of await root.list()) {
        // Skip a model that is being downloaded, because the download publishes it itself.
        if (record !== null || this.#closed || this.#turns.busy(modelId)) continue
        await this.#turns.run(modelId, async () => { await this.#importOne(modelId) })
      }
    } catch (error) {
      log.error({ path: root.root, error: String(error) }, 'the store cannot be read')
    }
  }

  async #importOne (modelId: string): Promise<void> {
    const { root, log, onChange } = this.#options
    try {
      const copy = await root.read(modelId)
      if (copy?.record === null) await this.#adoptUnlessDamaged(copy)
    } catch (error) {
      if (this.#closed) return
      const problem = error instanceof Error ? error.message : String(error)
      this.#problems.set(modelId, problem)
      log.warn({ modelId, problem }, 'a folder in the store is not offered')
      onChange(modelId)
    }
  }

  /** Imports a folder without a record. Throws StoreError `damaged` if it has one that is not valid. */
  async #adoptUnlessDamaged (copy: Copy): Promise<void> {
    const record = join(copy.directory, '.svc-record.json')
    const damaged = await lstat(record).then(() => true, () => false)
    if (!damaged) {
      return await attempt(this.#options.root.root, copy.modelId, async () => { await this.#adopt(copy) })
    }
    const [problem, mend] = copy.ours
      ? ['does not have the files in its record', `pull ${copy.modelId} again`]
      : ['has a record that cannot be read', 'move it elsewhere']
    throw new StoreError('damaged', `${copy.directory} ${problem}; ${mend}, ` +
      `or remove ${record} to import the folder unchanged`)
  }

  async #adopt (copy: Copy): Promise<void> {
    const { root, derive, log } = this.#options
    const { modelId, directory } = copy
    const abort = new AbortController()
    this.#adoption = { modelId, abort }
    try {
      // Fails early for unknown formats, since hashing takes minutes.
      await derive(directory, { modelId, revision: 'local', files: await walkModel(directory) })
      log.info({ modelId, bytes: copy.sizeBytes }, 'hashing a folder without a record')
      const manifest = await hashTree(directory, { modelId, revision: 'local', signal: abort.signal })
      const card = await derive(directory, { modelId, revision: 'local', files: manifest.files })
      await makeReadOnly(directory, manifest)
      abort.signal.throwIfAborted()
      await root.adopt(modelId, { manifest, card, source: 'file' })
      log.info({ modelId, bytes: manifest.totalBytes }, 'the store imported a folder')
    } finally { this.#adoption = null }
  }
}

/** Number of times the process may end during an import or download before it is parked. */
export const MOST_ATTEMPTS = 2
const ATTEMPTS = '.svc-attempts.json'
const ATTEMPTS_BYTES = 1024 * 1024

/** Runs `work` and counts attempts in a file of the store's folder `root`. @throws StoreError `parked` */
async function attempt (root: string, modelId: string, work: () => Promise<void>): Promise<void> {
  const { [modelId]: before = 0, ...others } = await readOwn(root, ATTEMPTS, ATTEMPTS_BYTES)
    .then((text) => JSON.parse(text) as Record<string, number>).catch(() => ({} as Record<string, number>))
  if (before >= MOST_ATTEMPTS) {
    throw new StoreError('parked', `importing it ended the process ${before} times, so svc skips it; ` +
      `remove it, or remove ${root}/${ATTEMPTS} to retry at the next start`)
  }
  await note(root, { ...others, [modelId]: before + 1 })
  try { await work() } finally { await note(root, others) }
}

const note = async (root: string, attempts: Record<string, number>): Promise<void> =>
  await putOwnText(root, ATTEMPTS, JSON.stringify(attempts))
