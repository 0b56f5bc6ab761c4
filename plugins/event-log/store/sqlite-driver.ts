/** The part of the sqlite3 package that svc uses; the package is optional, so its types may be missing. */
interface Database {
  serialize (): void
  run (sql: string, values: readonly SqlValue[], done: Done<undefined>): void
  all<T> (sql: string, values: readonly SqlValue[], done: Done<T[]>): void
  interrupt (): void
  close (done: Done<undefined>): void
}

type Done<T> = (error: Error & { code?: string } | null, value?: T) => void

interface Sqlite {
  Database: new (path: string, mode: number, done: Done<undefined>) => Database
  OPEN_READWRITE: number
  OPEN_CREATE: number
}

export type SqlValue = string | number | null

/** An open database. Statements run one after the other, each outside the event loop. */
export interface Db {
  run (sql: string, values?: readonly SqlValue[]): Promise<void>
  all<T> (sql: string, values?: readonly SqlValue[]): Promise<T[]>
  /** Aborts the running statement, which then fails. */
  interrupt (): void
  close (): Promise<void>
}

/** Opens a database file; `make` creates it. Rejects with DbError. */
export type OpenDb = (path: string, make: boolean) => Promise<Db>

export class DbError extends Error {
  override readonly name = 'DbError'
  readonly code: string
  /** Path of the database file; null if unknown. */
  readonly path: string | null

  constructor (message: string, code: string, path: string | null = null) {
    super(message)
    this.code = code
    this.path = path
  }

  get corrupt (): boolean { return this.code === 'SQLITE_CORRUPT' || this.code === 'SQLITE_NOTADB' }
}

/** Loads the package sqlite3. Rejects if it is not installed or has no build for this machine. */
export async function loadSqlite (): Promise<OpenDb> {
  // Typed as string, so that the compiler does not require the optional package.
  const name: string = 'sqlite3'
  const { default: sqlite } = await import(name) as { default: Sqlite }
  return async (path, make) => {
    const call = <T>(begin: (done: Done<T>) => void): Promise<T> => new Promise((resolve, reject) => {
      begin((error, value) => {
        if (error === null) resolve(value as T)
        else reject(new DbError(`${path}: ${error.message}`, error.code ?? 'SQLITE_ERROR', path))
      })
    })
    const mode = sqlite.OPEN_READWRITE | (make ? sqlite.OPEN_CREATE : 0)
    let database!: Database
    await call<undefined>((done) => { database = new sqlite.Database(path, mode, done) })
    database.serialize()
    return {
      run: (sql, values = []) => call<undefined>((done) => { database.run(sql, values, done) }),
      all: <T>(sql: string, values: readonly SqlValue[] = []) =>
        call<T[]>((done) => { database.all<T>(sql, values, done) }),
      interrupt: () => { database.interrupt() },
      close: () => call<undefined>((done) => { database.close(done) })
    }
  }
}
