import { readdirSync, readFileSync } from 'node:fs'
import { parse } from 'yaml'

/** `act` follows "how do I", `term` "what is", `err` "I got"; `free` and `talk` are whole questions. */
export const FIELDS = ['act', 'term', 'err', 'free', 'talk'] as const
export type Field = (typeof FIELDS)[number]

/** A help sheet: an answer, and the patterns of questions for it. */
export interface GuideEntry {
  /** Stable: `error:no_quorum` for a declared word's sheet, one plain word for a sheet from a YAML file. */
  readonly id: string
  readonly title: string
  readonly answer: string
  /** The declared word that this sheet explains: `no_quorum`, `svc place`, `GET /state`. */
  readonly code?: string
  /** Patterns by field (see `parsePattern`); fields without patterns are absent. */
  readonly asked: Readonly<Partial<Record<Field, readonly string[]>>>
  /** Words that replace `<thing>` and other placeholders in the patterns. */
  readonly words?: Readonly<Record<string, readonly string[]>>
}

/** A sheet in a YAML file; without title and answer, it only adds patterns to a declared word's sheet. */
export interface WrittenEntry extends Omit<GuideEntry, 'title' | 'answer'> {
  readonly title?: string
  readonly answer?: string
}

/** A sheet as parsed from YAML, with each pattern list still a single string. */
type Raw = { id: string, title?: string, answer?: string, words?: Record<string, string> } &
  Partial<Record<Field, string>>

/** Splits a field into its patterns, separated by `;`. */
export const patternsIn = (text: string): string[] =>
  text.split(';').map((one) => one.trim()).filter((one) => one !== '')

/** Parses a file of sheets. Throws if it is not a list of sheets. */
export function readSheets (text: string): WrittenEntry[] {
  const raw = parse(text) as Raw[]
  return raw.map(({ id, title, answer, words, ...fields }) => ({
    id,
    ...(title === undefined ? {} : { title }),
    ...(answer === undefined ? {} : { answer }),
    asked: Object.fromEntries(FIELDS.flatMap((field) =>
      fields[field] === undefined ? [] : [[field, patternsIn(fields[field])]])),
    ...(words === undefined
      ? {}
      : { words: Object.fromEntries(Object.entries(words).map(([key, list]) => [key, patternsIn(list)])) })
  }))
}

/** All written sheets, in the order of their file names. */
export function writtenSheets (): WrittenEntry[] {
  const folder = new URL('sheets/', import.meta.url)
  return readdirSync(folder).filter((name) => name.endsWith('.yaml')).sort()
    .flatMap((name) => readSheets(readFileSync(new URL(name, folder), 'utf8')))
}

/**
 * Written and declared sheets, with the written patterns added to the declared sheets. Skips patterns for a
 * word that is not declared, because its plugin is absent.
 */
export function allSheets (written: readonly WrittenEntry[], declared: readonly GuideEntry[]): GuideEntry[] {
  const extra = new Map(written.map((sheet) => [sheet.id, sheet]))
  const own = written.flatMap((sheet): GuideEntry[] => {
    const { title, answer } = sheet
    return title === undefined || answer === undefined ? [] : [{ ...sheet, title, answer }]
  })
  const known = declared.map((sheet) => ({ ...sheet, asked: extra.get(sheet.id)?.asked ?? sheet.asked }))
  return [...own, ...known]
}
