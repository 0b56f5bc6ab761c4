/** Why a transfer failed. */
export type TransferReason = 'hash' | 'no_source' | 'disk_full' | 'unwritable'

/** A transfer that cannot go on. What was fetched stays in the folder and is used by the next one. */
export class TransferError extends Error {
  readonly reason: TransferReason

  constructor (reason: TransferReason, message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause })
    this.name = 'TransferError'
    this.reason = reason
  }
}

/** What a source did wrong. Unless it says more, the transfer goes on with another source, or tries again. */
export class SourceFault extends Error {
  /** One word for what is wrong; null where there is only the message. */
  readonly reason: string | null = null
  /** False where asking again cannot help: the transfer ends with this error. */
  get retryable (): boolean { return true }
  /** How long the source asks to be left alone, ms; null when it does not say. */
  readonly retryAfterMs: number | null = null
  /** Whether the source can only send a file from its first byte, so that what is here of it is of no use. */
  get startOver (): boolean { return false }

  constructor (message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause })
    this.name = 'SourceFault'
  }
}

/** The error of a write to this disk as that of a transfer. */
export function diskError (error: unknown, where: string): TransferError {
  if (error instanceof TransferError) return error
  const { code, message } = error as NodeJS.ErrnoException
  const full = code === 'ENOSPC' || code === 'EDQUOT'
  const next = `${full ? 'free some space' : 'check the folder and its disk'}, then start it again`
  return new TransferError(full ? 'disk_full' : 'unwritable',
    `cannot write ${where}: ${message}; what was fetched is kept: ${next}`, error)
}
