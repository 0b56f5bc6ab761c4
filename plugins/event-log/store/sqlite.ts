/** The used part of the package sqlite3. Its own types are missing where it could not be installed. */
interface Database {
  serialize (): void
  run (sql: string, values: readonly SqlValue[], done: (error: Error | null) => void): void
  all<T> (sql: string, values: readonly SqlValue[], done: (error: Error | null, rows: T[]) => void): void
  interrupt (): void
  close (done: (error: Error | null) => void): void
}

interface Sqlite {
  Database: new (path: string, mode: number, done: (error: Error | null) => void) => Database
  OPEN_READWRITE: number
  OPEN_CREATE: number
}

export type SqlValue = string | number | null

/** An open database. Its statements run one after the other, each outside the event loop. */
export interface Db {
  /** Carries out one statement. */
  run (sql: string, values?: readonly SqlValue[]): Promise<void>
  /** Rows of one statement. */
  all<T> (sql: string, values?: readonly SqlValue[]): Promise<T[]>
  /** Ends the statement that is running: it fails. */
  interrupt (): void
  close (): Promise<void>
}

/** Opens a database file; makes it when told to. Rejects with DbError. */
export type OpenDb = (path: string, make: boolean) => Promise<Db>

/** An error of SQLite. */
export class DbError extends Error {
  override readonly name = 'DbError'
  /** SQLite's word, e.g. `SQLITE_FULL`. */
  readonly code: string
  /** The file; null where that is not known. */
  readonly path: string | null

  constructor (message: string, code: string, path: string | null = null) {
    super(message)
    this.code = code
    this.path = path
  }

  /** True when the file itself is damaged. */
  get corrupt (): boolean { return this.code === 'SQLITE_CORRUPT' || this.code === 'SQLITE_NOTADB' }
}

/** Loads the package sqlite3. Rejects where it is not installed or has no build for this machine. */
export async function loadSqlite (): Promise<OpenDb> {
  // Not a literal, or the compiler would need the package.
  const name: string = 'sqlite3'
  const { default: sqlite } = await import(name) as { default: Sqlite }
  return (path, make) => new Promise((resolve, reject) => {
    const mode = sqlite.OPEN_READWRITE | (make ? sqlite.OPEN_CREATE : 0)
    const database = new sqlite.Database(path, mode, (error) => {
      if (error === null) resolve(wrap(database, path))
      else reject(asDbError(error, path))
    })
  })
}

function wrap (database: Database, path: string): Db {
  database.serialize()
  const call = <T>(begin: (done: (error: Error | null, value?: T) => void) => void): Promise<T> =>
    new Promise((resolve, reject) => {
      begin((error, value) => {
        if (error === null) resolve(value as T)
        else reject(asDbError(error, path))
      })
    })
  return {
    run: (sql, values = []) => call<undefined>((done) => { database.run(sql, values, (e) => { done(e) }) }),
    all: <T>(sql: string, values: readonly SqlValue[] = []) => call<T[]>((done) => {
      database.all<T>(sql, values, (error, rows) => { done(error, rows) })
    }),
    interrupt: () => { database.interrupt() },
    close: () => call<undefined>((done) => { database.close(done) })
  }
}

function asDbError (error: Error, path: string): DbError {
  const { code } = error as { code?: unknown }
  return new DbError(`${path}: ${error.message}`, typeof code === 'string' ? code : 'SQLITE_ERROR', path)
}
