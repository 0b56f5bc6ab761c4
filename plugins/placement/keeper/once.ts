import { createHash } from 'node:crypto'

/** A deterministic command id (UUID v8), so that every master issues the same command. */
export function onceFor (what: string, id: string): string {
  const hex = createHash('sha256').update(`placement ${what} ${id}`).digest('hex')
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-8$3-8$4-$5')
}
