import { readdirSync, readFileSync } from 'node:fs'
import { parse } from 'yaml'

/** A way to ask: the part of a sentence that a pattern is. */
export const FIELDS = ['act', 'term', 'err', 'free', 'talk'] as const
export type Field = (typeof FIELDS)[number]

/** One answer and the ways in which people ask for it. */
export interface GuideEntry {
  /** Names the sheet for good; `error:no_quorum` for what is declared, one word for what is written. */
  readonly id: string
  readonly title: string
  readonly answer: string
  /** The declared word that this sheet explains, as it is written: `no_quorum`, `svc place`, `GET /state`. */
  readonly code?: string
  /** Patterns by field (see `parsePattern`); a field without any is absent. */
  readonly asked: Readonly<Partial<Record<Field, readonly string[]>>>
  /** Words that may stand for `<thing>` and so on in the patterns. */
  readonly words?: Readonly<Record<string, readonly string[]>>
}

/** A sheet as it is written; without answer it only adds ways to ask for something declared. */
export interface WrittenEntry extends Omit<GuideEntry, 'title' | 'answer'> {
  readonly title?: string
  readonly answer?: string
}

/** What is in a file of sheets, before the lists are split. */
type Raw = { id: string, title?: string, answer?: string, words?: Record<string, string> } &
  Partial<Record<Field, string>>

/** The patterns of a field as it is written, separated by `;`. */
export const patternsIn = (text: string): string[] =>
  text.split(';').map((one) => one.trim()).filter((one) => one !== '')

/** Reads one file of sheets. Throws on anything that is not a list of sheets. */
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

/** Every written sheet, from the files beside this one in the order of their names. */
export function writtenSheets (): WrittenEntry[] {
  const folder = new URL('sheets/', import.meta.url)
  return readdirSync(folder).filter((name) => name.endsWith('.yaml')).sort()
    .flatMap((name) => readSheets(readFileSync(new URL(name, folder), 'utf8')))
}

/**
 * All sheets: the written ones, and the declared ones with the ways to ask that were written for them. What
 * was written for a word that nobody declares (its plugin is not there) is left out.
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
