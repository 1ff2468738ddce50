/* A log file for trouble that nobody may print: one line per kind of trouble and process, never on the program's own streams. */
#ifndef VCUDA_LOG_H
#define VCUDA_LOG_H

enum trouble {
    TROUBLE_NO_CLAIM,
    TROUBLE_FOREIGN_LAYOUT,
    TROUBLE_NO_DRIVER,
    TROUBLE_NO_SLOT,
    TROUBLE_UNLISTED_CARD,
    TROUBLE_TORN_RECORD,
    TROUBLE_LOST_LOCK,
    TROUBLE_KINDS,
};

/* Use the claim's existing file `log` from now on; without it, log lines are dropped. */
void log_open(const char *folder);

/* Append "<time> pid <n>: <what> (<detail>)". The first line of each kind only; nothing once the file holds 1 MiB. */
void log_trouble(enum trouble kind, const char *detail);

#endif
