/** What the store could not do. `reason` is a stable word, the message a sentence for people. */
export class StoreError extends Error {
  override name = 'StoreError'
  readonly reason: string

  constructor (reason: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}

/** Reasons for error codes of the file system. */
const CODES: Record<string, string> = {
  ENOSPC: 'disk_full', EDQUOT: 'disk_full', EROFS: 'unwritable', EACCES: 'unwritable', EPERM: 'unwritable'
}

/** Reasons for errors about the files of a model. */
const NAMES: Record<string, string> = { PathError: 'bad_path', ManifestError: 'bad_manifest' }

/**
 * Any failure as a StoreError. An error that has a `reason` of its own (of the hub, of a transfer, of
 * admission) keeps it and its sentence; one of the file system gets the reason for its code. Pure.
 */
export function asStoreError (error: unknown): StoreError {
  if (error instanceof StoreError) return error
  const { reason, code, name, message } = (error ?? {}) as Record<string, unknown>
  const text = typeof message === 'string' && message !== '' ? message : String(error)
  if (typeof reason === 'string') return new StoreError(reason, text, { cause: error })
  const known = CODES[String(code)] ?? NAMES[String(name)]
  return new StoreError(known ?? 'internal', text, { cause: error })
}
