import { PathError } from './errors.js'
import { sync } from './folders.js'
import { checkManifest } from './manifest.js'
import { shown } from './names.js'
import { putOwn, readOwn } from './open.js'
import type { CopyRecord, HubChoice } from '../types.js'

/** The file in a copy that says what the copy is. */
export const RECORD_FILE = '.svc-record.json'
const FORMAT = 1
/** A model of 16,384 files and 10 TB stays below that. */
const MOST_BYTES = 64 * 1024 * 1024

/**
 * The record in a value, checked: its manifest by checkManifest, its card as far as the model's id. Throws
 * ManifestError or PathError when it is none of this model.
 */
export function checkRecord (value: unknown, modelId: string): CopyRecord {
  const { manifest, card, source, choice, publishedAt } =
    (value ?? {}) as Partial<Record<keyof CopyRecord, unknown>>
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
  const chosen = choiceIn(choice)
  return {
    manifest: checked, card: card as CopyRecord['card'], source, publishedAt,
    ...chosen === null ? {} : { choice: chosen }
  }
}

/** What cannot be read counts as none: the digest says whether the files are right. */
function choiceIn (value: unknown): HubChoice | null {
  const { allow = null, variant = null } = (value ?? {}) as { allow?: unknown, variant?: unknown }
  const patterns = Array.isArray(allow) && allow.every((one) => typeof one === 'string') ? allow : null
  const word = typeof variant === 'string' ? variant : null
  return patterns === null && word === null ? null : { allow: patterns as string[] | null, variant: word }
}

/**
 * The record in a folder, or null when there is no valid one, or none of that model (any model's when none is
 * named). Never throws.
 */
export async function readRecord (folder: string, modelId?: string): Promise<CopyRecord | null> {
  try {
    const value = JSON.parse(await readOwn(folder, RECORD_FILE, MOST_BYTES)) as {
      format?: unknown, manifest?: { modelId?: string }
    } | null
    return value?.format === FORMAT ? checkRecord(value, modelId ?? String(value.manifest?.modelId)) : null
  } catch {
    // Whatever is wrong with it, nobody vouches for the copy then.
    return null
  }
}

/** Writes a record into a folder: at any moment the old one or the new one is there, whole. */
export async function writeRecord (folder: string, record: CopyRecord): Promise<void> {
  await putOwn(folder, RECORD_FILE, async (file) => {
    await file.writeFile(`${JSON.stringify({ format: FORMAT, ...record })}\n`)
    await file.sync()
    await file.close()
  })
  await sync(folder)
}
