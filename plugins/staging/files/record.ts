import { constants } from 'node:fs'
import { open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { PathError } from './errors.js'
import { sync } from './folders.js'
import { checkManifest } from './manifest.js'
import { shown } from './names.js'
import type { CopyRecord } from '../types.js'

/** The file in a copy that says what the copy is. */
export const RECORD_FILE = '.svc-record.json'
const TEMPORARY = `${RECORD_FILE}.tmp`
const FORMAT = 1
/** A model of 16,384 files and 10 TB stays below that. */
const MOST_BYTES = 64 * 1024 * 1024

/**
 * The record in a value, checked: its manifest by checkManifest, its card as far as the model's id. Throws
 * ManifestError or PathError when it is none of this model.
 */
export function checkRecord (value: unknown, modelId: string): CopyRecord {
  const { manifest, card, source, publishedAt } = (value ?? {}) as Partial<Record<keyof CopyRecord, unknown>>
  const checked = checkManifest(manifest)
  if (checked.modelId !== modelId) {
    throw new PathError(`the record is of ${shown(checked.modelId)}, not of ${shown(modelId)}`)
  }
  const named = typeof card === 'object' && card !== null && 'modelId' in card
  if (!named || card.modelId !== modelId) {
    throw new PathError(`the record of ${shown(modelId)} has no card of that model`)
  }
  if (typeof source !== 'string' || typeof publishedAt !== 'string') {
    throw new PathError(`the record of ${shown(modelId)} does not say where or when it came from`)
  }
  return { manifest: checked, card: card as CopyRecord['card'], source, publishedAt }
}

/** The record in a model's folder, or null when there is no valid one of that model. Never throws. */
export async function readRecord (folder: string, modelId: string): Promise<CopyRecord | null> {
  try {
    const value = JSON.parse(await readText(join(folder, RECORD_FILE))) as { format?: unknown } | null
    return value?.format === FORMAT ? checkRecord(value, modelId) : null
  } catch {
    // Whatever is wrong with it, nobody vouches for the copy then.
    return null
  }
}

async function readText (path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const stats = await file.stat()
    if (!stats.isFile() || stats.size > MOST_BYTES) throw new PathError(`${path} is no record`)
    return await file.readFile('utf8')
  } finally {
    await file.close()
  }
}

/** Writes a record into a folder: at any moment the old one or the new one is there, whole. */
export async function writeRecord (folder: string, record: CopyRecord): Promise<void> {
  const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW } = constants
  const temporary = join(folder, TEMPORARY)
  const file = await open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0o600)
  try {
    await file.writeFile(`${JSON.stringify({ format: FORMAT, ...record })}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(temporary, join(folder, RECORD_FILE))
  await sync(folder)
}
