"""`chumoku.read_table` reads files as the command does."""

import chumoku
import pytest

WORDS = ["kam kaputt an", "nie wieder", "sehr zufrieden damit", "schnelle Lieferung", "ganz in Ordnung"]


def rows(write, header, n=60):
    return "\n".join([header, *(write(f"{WORDS[i % 5]} {i}", i) for i in range(n))]) + "\n"


def test_classes_labels_and_numbers_are_distinguished(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text(rows(lambda text, i: f"{text};{1 + i % 4},5", "Kommentar;Note"), "utf-8")
    found = chumoku.read_table(file)
    assert found.task == "score" and found.labels[:3] == [1.5, 2.5, 3.5] and found.texts[0] == "kam kaputt an 0"
    file.write_text(rows(lambda text, i: f"{text},{['sun|sea', 'sea', 'sun'][i % 3]}", "text,labels"), "utf-8")
    assert chumoku.read_table(file).labels[0] == ["sun", "sea"]
    flags = rows(lambda text, i: f"{text},{i % 2},{i // 2 % 2},{i // 4 % 2},{['Low', 'High'][i % 5 % 2]}", "text,is_new,has_link,verified,priority")
    file.write_text(flags, "utf-8")
    found = chumoku.read_table(file)
    assert found.task == "classify" and set(found.labels) == {"Low", "High"} and "priority" in found.description


def test_options_match_the_command(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes(rows(lambda text, i: f"{['Ham', 'ham', 'spam'][i % 3]},{text} für dich,,", "v1,v2,,").encode("latin-1"))
    with pytest.raises(ValueError, match='encoding="windows-1252"'):
        chumoku.read_table(file)
    found = chumoku.read_table(file, encoding="latin-1", text="v2", label="v1", merge_labels=True)
    assert len(set(found.labels)) == 2 and found.texts[1] == "nie wieder 1 für dich"
    file.write_text(rows(lambda text, i: f"{text},{['x', 'y', 'NaN'][i % 3]}", "text,label"), "utf-8")
    with pytest.raises(ValueError, match="NaN"):
        chumoku.read_table(file)
    with pytest.raises(ValueError, match=r"missing=\[\] reads it as a class.*skip_bad_rows=True"):
        chumoku.read_table(file)
    with pytest.raises(ValueError, match="change text or label$"):
        chumoku.read_table(file, text="text", label="text")
    assert set(chumoku.read_table(file, missing=[]).labels) == {"x", "y", "NaN"}
    assert len(chumoku.read_table(file, skip_bad_rows=True).labels) == 40
    file.write_text(rows(lambda text, i: f"TKT-{i:06},{['Chat', 'Mail'][i // 2 % 2]},{['a', 'b'][i % 2]}", "ticket_id,channel,category"), "utf-8")
    with pytest.raises(ValueError, match="identifiers"):
        chumoku.read_table(file)


def test_a_file_that_was_read_is_not_overwritten(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text(rows(lambda text, i: f"{text},{['ham', 'spam'][i % 2]}", "text,label"), "utf-8")
    before = file.read_bytes()
    found = chumoku.read_table(file)
    checkup = chumoku.doctor(found.texts, found.labels, folds=2)
    with pytest.raises(ValueError, match="this is an input file"):
        checkup.save(file)
    assert file.read_bytes() == before
    checkup.save(tmp_path / "doctor.csv")
